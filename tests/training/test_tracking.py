"""Weights & Biases by its real package, offline: the names of runs there, and the continuation of interrupted runs."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from reward_ablation.spec.canonical import canonical
from reward_ablation.start.prune import foreign_in
from reward_ablation.training.around.tracking import prepare_wandb, tracker_settings

from .conftest import spec_with
from .interrupting import SAVING, attempts, digests

#: Where `make test` installs W&B.
PACKAGES = Path(sys.prefix) / "wandb"

TRACKING = {
    "report_to": "wandb",
    "run_name": "demo-K4-4steps-mixed-seed0",
    "project": "study",
    "group": "mixed",
}

#: Trains a run in a process of its own, and sends it SIGTERM in the step that is named, where one is.
TRAIN = """
import json, sys
from pathlib import Path
from reward_ablation.training.around.interruption import Stopped
from reward_ablation.spec.run import RunSpec
from reward_ablation.training.around.job import TrainingJob
from reward_ablation.training.around.run import train_run
from training.interrupting import SignalIn
spec, model, problems, run, tracking, step = sys.argv[1:]
callbacks = (SignalIn(int(step)),) if step != "0" else ()
try:
    inputs = (RunSpec.parse(spec), "code", Path(model), Path(problems), Path(run))
    train_run(TrainingJob(*inputs, tracking=json.loads(tracking)), callbacks)
except Stopped:
    sys.exit(3)
"""


@pytest.fixture
def start(demo_model, problems):
    """`start(run, tracking, step)` trains a run, and ends it in that step; its exit status."""

    def train(run: Path, tracking: dict, step: int = 0, **environment: str) -> int:
        spec = canonical(spec_with(training=SAVING))
        command = [sys.executable, "-c", TRAIN, spec, str(demo_model), str(problems), str(run)]
        own = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
        paths = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, [own.get("PYTHONPATH")]), str(PACKAGES)])
        environment = {**own, "PYTHONPATH": paths, "WANDB_MODE": "offline", **environment}
        (run.parent / "elsewhere").mkdir(parents=True, exist_ok=True)
        result = subprocess.run(
            [*command, json.dumps(tracking), str(step)],
            cwd=run.parent / "elsewhere",
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert result.returncode in (0, 3), result.stderr
        assert list((run.parent / "elsewhere").iterdir()) == []
        return result.returncode

    return train


def records_in(path: Path) -> Iterator[bytes]:
    """Records of an offline file: LevelDB's log of 32 KiB blocks behind 7 bytes; wandb itself has no reader."""
    data, place, record = path.read_bytes(), 7, b""
    while place + 7 <= len(data):
        if (left := -place % 32768) and left < 7:  # too little for a chunk's header: filled up
            place += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, place)
        record += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield record
            record = b""


def offline_runs(run: Path) -> list[tuple[dict, list[dict]]]:
    """Of each attempt, in their order: what W&B calls it, and its rows of metrics."""
    from wandb.proto.wandb_internal_pb2 import Record

    found = []
    for path in sorted((run / "wandb").glob("offline-run-*/*.wandb")):
        about, rows = {}, []
        for record in map(Record.FromString, records_in(path)):
            if record.HasField("run"):
                its = record.run
                about = {"id": its.run_id, "name": its.display_name, "project": its.project, "group": its.run_group}
            if record.HasField("history"):
                items = record.history.item
                rows.append({item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items})
        found.append((about, rows))
    return found


@pytest.mark.slow
@pytest.mark.long
def test_an_interrupted_run_goes_on_in_the_same_wandb_run(start, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, str(PACKAGES)])
    pytest.importorskip("wandb", reason="W&B is not installed; `make test` does")
    run, plain = tmp_path / "mixed-0" / "seed0", tmp_path / "plain" / "seed0"
    assert start(run, TRACKING, step=3) == 3
    assert start(run, TRACKING) == 0
    first, second = offline_runs(run)
    assert first[0] == second[0]
    assert first[0] == {**first[0], "name": TRACKING["run_name"], "project": "study", "group": "mixed"}
    rows = [row for row in first[1] + second[1] if "train/reward" in row]
    assert [row["train/global_step"] for row in rows] == [1, 2, 3, 4]
    assert attempts(run) == [(0, 3, "SIGTERM"), (3, 4, "done")]
    assert foreign_in(run) == []
    assert not any("wandb" in name for name in digests(run))
    assert start(plain, {}) == 0
    assert digests(plain) == digests(run)  # neither the tracker nor the interruption changes anything


def test_what_the_user_says_wins(monkeypatch, tmp_path):
    environment = {"WANDB_PROJECT": "mine", "WANDB_DIR": "/tmp"}
    prepare_wandb(TRACKING, tmp_path, environment)
    assert environment | {"WANDB_RUN_ID": ""} == {
        "WANDB_PROJECT": "mine",
        "WANDB_DIR": "/tmp",
        "WANDB_RUN_GROUP": "mixed",
        "WANDB_RUN_ID": "",
        "WANDB_RESUME": "allow",
    }
    monkeypatch.setenv("WANDB_NAME", "my name")
    assert tracker_settings(TRACKING) == {"report_to": "wandb", "run_name": "my name", "project": "study"}
    assert tracker_settings({}) == {}
    prepare_wandb({}, tmp_path, unset := {})
    assert unset == {}


def test_another_training_is_another_wandb_run(tmp_path):
    first, again, other = {}, {}, {}
    prepare_wandb(TRACKING, tmp_path / "a", first)
    prepare_wandb(TRACKING, tmp_path / "a", again)
    prepare_wandb(TRACKING, tmp_path / "b", other)
    assert first["WANDB_RUN_ID"] == again["WANDB_RUN_ID"] != other["WANDB_RUN_ID"]
