"""A worker of `same_bytes.py`: makes what the runs start from, or trains them by the code that it is started with.

python trained_bytes.py make FOLDER
python trained_bytes.py train FOLDER NUMBER
"""

from __future__ import annotations

import copy
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers import TrainerCallback


class StopInStep2(TrainerCallback):
    """Ask the run to stop, as a cluster would, in the midst of its second step."""

    def on_pre_optimizer_step(self, args, state, control, **kwargs):
        if state.global_step == 1:
            os.kill(os.getpid(), signal.SIGTERM)


def merged(config: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A config with changes; a dict is merged into the one that is there."""
    result = copy.deepcopy(config)
    for key, value in changes.items():
        old = result.get(key)
        result[key] = merged(old, value) if isinstance(value, dict) and isinstance(old, dict) else value
    return result


def make(folder: Path) -> None:
    """The base model, and each case's spec and problems."""
    import yaml

    from reward_ablation.data.problems import PrepareSpec, prepare
    from reward_ablation.models.fetch import fetch
    from reward_ablation.study.resolve import resolve

    given = json.loads((folder / "cases.json").read_text())
    demo = yaml.safe_load(Path("config/demo.yaml").read_text())
    demo = merged(demo, {"model": {"samples": 300, "steps": 40}, "data": {"train": {"count": 32}}})
    demo["training"] |= given["training"]
    demo.pop("keep_models")
    for number, changes in enumerate(given["cases"].values()):
        study = resolve(merged(demo, changes), "demo.yaml", Path.cwd())
        if number == 0:
            fetch(study.config.model, folder / "model" / "model.json")
        case = folder / f"case{number}"
        case.mkdir()
        prepare(PrepareSpec.model_validate_json(study.train_data_spec(None)), "train", case / "train.parquet")
        (case / "spec.json").write_text(next(iter(study.runs.values())).spec)


def train_run() -> Callable[..., None]:
    """The function that trains a run, at its place in this code or in that of version 0.1."""
    try:
        from reward_ablation.training.around.run import train_run as function
    except ModuleNotFoundError:
        from reward_ablation.training.run import train_run as function  # type: ignore[import-not-found, no-redef]
    return function


def train(folder: Path, number: str) -> None:
    """Train all cases, and write the digests of their files."""
    train_one = train_run()
    digests = {}
    for place, name in enumerate(json.loads((folder / "cases.json").read_text())["cases"]):
        case, run = folder / f"case{place}", folder / f"runs{number}" / f"case{place}" / "seed0"
        inputs = ((case / "spec.json").read_text(), "code", folder / "model", case / "train.parquet", run)
        if name.endswith("interrupted"):
            try:
                train_one(*inputs, callbacks=(StopInStep2(),))
                raise AssertionError(f"{name}: the run was not interrupted")
            except Exception as stopped:
                if type(stopped).__name__ != "Stopped":
                    raise
        train_one(*inputs)
        digests[name] = json.loads((run / "run.json").read_text())["files"]
    (folder / f"digests{number}.json").write_text(json.dumps(digests))


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(Path(sys.argv[2]))
    else:
        train(Path(sys.argv[2]), sys.argv[3])
