"""A worker of `same_bytes.py`: makes the inputs of runs, or trains the runs, with the code on PYTHONPATH.

python trained_bytes.py make FOLDER
python trained_bytes.py train FOLDER NUMBER
python trained_bytes.py begin FOLDER NUMBER
python trained_bytes.py finish FOLDER NUMBER

`train` also runs the other stages: data, the demo model, a supervised start, evaluations. `begin` interrupts the cases
that are interrupted, and `finish` goes on with them, perhaps with other code.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from transformers import TrainerCallback


class StopInStep2(TrainerCallback):
    """Send the run a SIGTERM, as a cluster would, in the middle of its second step."""

    def on_pre_optimizer_step(self, args, state, control, **kwargs):
        if state.global_step == 1:
            os.kill(os.getpid(), signal.SIGTERM)


def merged(config: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A config with changes. A dict is merged into the dict that the config has, and None takes a key out."""
    result = copy.deepcopy(config)
    for key, value in changes.items():
        old = result.get(key)
        result[key] = merged(old, value) if isinstance(value, dict) and isinstance(old, dict) else value
    return {key: value for key, value in result.items() if value is not None}


def text_of(spec: Any) -> str:
    """A spec as JSON. In earlier code it was a function of Snakemake's wildcards."""
    return spec if isinstance(spec, str) else spec(None)


def make(folder: Path) -> None:
    """Make the base model, each case's spec and problems, and the specs of the other stages."""
    import yaml

    from reward_ablation.data.problems import PrepareSpec, prepare
    from reward_ablation.models.fetch import fetch
    from reward_ablation.study.resolve import resolve

    cases = json.loads((folder / "cases.json").read_text())
    demo = yaml.safe_load(Path("config/demo.yaml").read_text())
    demo = merged(demo, {"model": {"samples": 300, "steps": 40}, "data": {"train": {"count": 32}}})
    demo["training"] |= cases["training"]
    demo.pop("keep_models")
    for number, changes in enumerate(cases["cases"].values()):
        study = resolve(merged(demo, changes), "demo.yaml", Path.cwd())
        if number == 0:
            fetch(study.config.model, folder / "model" / "model.json")
        case = folder / f"case{number}"
        case.mkdir()
        prepare(PrepareSpec.model_validate_json(text_of(study.train_data_spec)), "train", case / "train.parquet")
        (case / "spec.json").write_text(next(iter(study.runs.values())).spec)
    study = resolve(merged(demo, {"sft": cases["sft"], "evaluation": {"samples": 2}}), "demo.yaml", Path.cwd())
    specs = {
        "test": next(iter(study.datasets.values())),
        "train": text_of(study.train_data_spec),
        "model": text_of(study.model_spec),
        "sft": text_of(study.sft_spec),
        "evaluation": text_of(study.evaluation_spec),
    }
    (folder / "stages.json").write_text(json.dumps(specs))


def train_run() -> Callable[..., None]:
    """The function that trains a run, from its module in this code, in earlier code, or in version 0.1."""
    try:
        from reward_ablation.training.around.run import train_run as function
    except ModuleNotFoundError:
        from reward_ablation.training.run import train_run as function  # type: ignore[import-not-found, no-redef]
    try:
        from reward_ablation.training.around.job import TrainingJob
    except ModuleNotFoundError:
        return function  # which takes the inputs one by one
    from reward_ablation.spec.run import RunSpec

    def train(spec: str, *inputs: Any, callbacks: Sequence[Any] = ()) -> None:
        function(TrainingJob(RunSpec.parse(spec), *inputs), callbacks)

    return train


def interrupt(name: str, inputs: tuple[Any, ...]) -> None:
    """Train a case until it is interrupted."""
    try:
        train_run()(*inputs, callbacks=(StopInStep2(),))
        raise AssertionError(f"{name}: the run was not interrupted")
    except Exception as stopped:
        if type(stopped).__name__ != "Stopped":
            raise


def in_two_parts(folder: Path, number: str, finishes: bool) -> None:
    """Begin the cases that are interrupted, or finish them and write the digests of their files."""
    digests = {}
    for place, name in enumerate(json.loads((folder / "cases.json").read_text())["cases"]):
        case, run = folder / f"case{place}", folder / f"runs{number}" / f"case{place}" / "seed0"
        inputs = ((case / "spec.json").read_text(), "code", folder / "model", case / "train.parquet", run)
        if name.endswith("interrupted") and not finishes:
            interrupt(name, inputs)
        elif name.endswith("interrupted"):
            train_run()(*inputs)
            record = json.loads((run / "run.json").read_text())
            went_on = len(record["attempts"]) == 2
            digests[name] = record["files"] if went_on else {"checkpoint": "was not used"}
    if finishes:
        (folder / f"digests{number}.json").write_text(json.dumps(digests))


def train(folder: Path, number: str) -> None:
    """Train all cases, and write the digests of their files."""
    train_one = train_run()
    digests = {}
    for place, name in enumerate(json.loads((folder / "cases.json").read_text())["cases"]):
        case, run = folder / f"case{place}", folder / f"runs{number}" / f"case{place}" / "seed0"
        inputs = ((case / "spec.json").read_text(), "code", folder / "model", case / "train.parquet", run)
        if name.endswith("interrupted"):
            interrupt(name, inputs)
        train_one(*inputs)
        digests[name] = json.loads((run / "run.json").read_text())["files"]
    runs = folder / f"runs{number}"
    digests["the stages around the runs"] = stages(folder, runs / "stages", runs)
    (folder / f"digests{number}.json").write_text(json.dumps(digests))


def evaluates_runs() -> bool:
    """Whether one evaluation makes all answers of a run in this code. Before, each evaluation made one file."""
    return find_spec("reward_ablation.evaluation.stored") is not None


def stages(folder: Path, made: Path, runs: Path) -> dict[str, str]:
    """Run the commands of the other stages. Returns the digests of their files.

    Parameters
    ----------
    folder : Path
        Folder with the base model and the specs of the stages.
    made : Path
        Output folder.
    runs : Path
        Folder with the trained cases. The case with LoRA has an adapter; the last case has none.
    """
    specs = json.loads((folder / "stages.json").read_text())

    def stage(module: str, spec: str, *options: str | Path) -> None:
        command = [sys.executable, "-P", "-m", f"reward_ablation.{module}", "--spec", specs[spec], *map(str, options)]
        subprocess.run(command, check=True, stdout=sys.stderr)

    base, problems = folder / "model", made / "test.parquet"
    made.mkdir(parents=True)
    stage("data", "test", "--name", "test", "--output", problems)
    stage("data", "train", "--name", "train", "--output", made / "train.parquet", "--apart-from", problems)
    stage("models", "model", "--output", made / "model" / "model.json")
    demonstrations = ("--problems", folder / "case0" / "train.parquet")
    stage("sft", "sft", "--model", base, *demonstrations, "--output", made / "start" / "model.json")
    models = {"base": base} | {case.name: case / "seed0" / "model" for case in sorted(runs.glob("case*"))}
    inputs = ("--base", base, "--problems", problems)
    if evaluates_runs():
        for name, model in models.items():
            stage("evaluation", "evaluation", "--model", model, *inputs, "--answers", made / "of" / name)
            os.renames(made / "of" / name / "test.parquet", made / "answers" / f"{name}.parquet")
        keeping = ("--run", runs / "case0" / "seed0", "--kept", *inputs)
        stage("evaluation", "evaluation", *keeping, "--answers", made / "of" / "run")
        os.renames(made / "of" / "run" / "test.steps.parquet", made / "answers" / "kept.parquet")
        shutil.rmtree(made / "of")
    else:
        for name, model in models.items():
            output = made / "answers" / f"{name}.parquet"
            stage("evaluation", "evaluation", "--model", model, *inputs, "--output", output)
        keeping = ("--kept", runs / "case0" / "seed0", *inputs)
        stage("evaluation", "evaluation", *keeping, "--output", made / "answers" / "kept.parquet")
    files = (path for path in sorted(made.rglob("*")) if path.is_file() and path.name != "model.json")
    return {str(file.relative_to(made)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(Path(sys.argv[2]))
    elif sys.argv[1] == "train":
        train(Path(sys.argv[2]), sys.argv[3])
    else:
        in_two_parts(Path(sys.argv[2]), sys.argv[3], finishes=sys.argv[1] == "finish")
