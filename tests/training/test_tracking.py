"""Trackers by their real packages, offline: names, groups and configs of runs, and interrupted runs that go on."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest

from reward_ablation.spec.canonical import canonical
from reward_ablation.start.files import foreign_in
from reward_ablation.training.around.run import train_run
from reward_ablation.training.around.tracking import prepare_wandb, tracker_settings

from .conftest import job_of, spec_with
from .interrupting import SAVING, attempts, digests

#: Where `make test-all` installs W&B.
PACKAGES = Path(sys.prefix) / "wandb"

TRACKING = {"report_to": "wandb", "run_name": "demo-mixed-seed0", "project": "study", "group": "mixed"}

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
        spec = canonical(spec_with(training=SAVING, weights={"length": 0}))
        command = [sys.executable, "-c", TRAIN, spec, str(demo_model), str(problems), str(run)]
        own = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
        paths = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, [own.get("PYTHONPATH")]), str(PACKAGES)])
        environment = {**own, "PYTHONPATH": paths, "WANDB_MODE": "offline", **environment}
        (run.parent / "elsewhere").mkdir(parents=True, exist_ok=True)
        command += [json.dumps(tracking), str(step)]
        how = {"env": environment, "capture_output": True, "text": True, "timeout": 300}
        result = subprocess.run(command, cwd=run.parent / "elsewhere", **how)
        assert result.returncode in (0, 3), result.stderr
        assert list((run.parent / "elsewhere").iterdir()) == []
        return result.returncode

    return train


#: What the config of a run says of the arm.
CONFIG = {"arm": "mixed", "weights/correctness": 1, "weights/format": 0.5, "weights/length": 0}


def assert_spread_is_of_the_rollouts(rows: list[dict], run: Path) -> None:
    """The mean and deviation of each component's scores by step, also where the weight is 0."""
    rollouts = pd.read_parquet(run / "rollouts.parquet").groupby("step")
    for name in ("correctness", "format", "length"):
        scores = rollouts[f"score_{name}"]
        for metric, expected in (("mean", scores.mean()), ("std", scores.std())):
            assert [row[f"train/rewards/{name}/{metric}"] for row in rows] == pytest.approx(expected.tolist(), rel=1e-5)


@pytest.mark.slow
@pytest.mark.long
def test_an_interrupted_run_goes_on_in_the_same_runs_of_wandb_and_trackio(start, tmp_path):
    there = [name for name in ("wandb", "trackio") if find_spec(name) or (PACKAGES / name).is_dir()]
    if not there:
        pytest.skip("neither W&B nor Trackio is installed; `make test-all` installs W&B")
    run, plain = tmp_path / "mixed-0" / "seed0", tmp_path / "plain" / "seed0"
    tracking, folder = {**TRACKING, "report_to": there}, tmp_path / "trackio"
    assert start(run, tracking, step=3, TRACKIO_DIR=str(folder)) == 3
    assert start(run, tracking, TRACKIO_DIR=str(folder)) == 0
    assert attempts(run) == [(0, 3, "SIGTERM"), (3, 4, "done")]
    if "wandb" in there:
        first, second = sorted((run / "wandb").glob("offline-run-*/*.wandb"))
        assert first.name == second.name  # which has the run's id
        for text in (*CONFIG, TRACKING["run_name"], "study", "mixed", "train/rewards/length/std"):
            assert text.encode() in first.read_bytes()
    if "trackio" in there:
        with closing(sqlite3.connect(folder / "study.db")) as database:
            metrics = database.execute("SELECT run_name, metrics FROM metrics ORDER BY id").fetchall()
            [(config,)] = database.execute("SELECT config FROM configs").fetchall()
        assert {name for name, _ in metrics} == {TRACKING["run_name"]}
        rows = [row for _, text in metrics if "train/reward" in (row := json.loads(text))]
        assert [row["train/global_step"] for row in rows] == [1, 2, 3, 4]
        assert_spread_is_of_the_rollouts(rows, run)
        assert json.loads(config).items() >= {"_Group": "mixed", **CONFIG}.items()
    assert foreign_in(run) == []
    assert not any("wandb" in name for name in digests(run))
    assert start(plain, {}) == 0
    assert digests(plain) == digests(run)  # neither the trackers nor the interruption changes anything


def test_tensorboard_gets_the_spread_and_the_result_stays(train, demo_model, problems, tmp_path, monkeypatch):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    spec, run = spec_with(weights={"length": 0}), tmp_path / "board" / "seed0"
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(run / "tensorboard"))
    tracking = {**TRACKING, "report_to": "tensorboard"}
    train_run(job_of(spec, run, demo_model, problems, tracking=tracking))
    events = EventAccumulator(str(run / "tensorboard"))
    events.Reload()
    names = [f"train/rewards/{name}/{metric}" for name in spec["components"] for metric in ("mean", "std")]
    columns = [[event.value for event in events.Scalars(name)] for name in names]
    assert_spread_is_of_the_rollouts([dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)], run)
    assert digests(train("plain", weights={"length": 0})) == digests(run)


def test_what_the_user_says_wins(monkeypatch, tmp_path):
    mine = {"WANDB_PROJECT": "mine", "WANDB_DIR": "/tmp"}
    prepare_wandb(TRACKING, tmp_path, environment := dict(mine))
    identity = environment.pop("WANDB_RUN_ID")
    assert environment == {**mine, "WANDB_RUN_GROUP": "mixed", "WANDB_RESUME": "allow"}
    monkeypatch.setenv("WANDB_NAME", "my name")
    assert tracker_settings(TRACKING) == {"report_to": "wandb", "run_name": "my name", "project": "study"}
    for trackers in ("trackio", "tensorboard", ["wandb", "trackio"]):
        assert tracker_settings(TRACKING | {"report_to": trackers})["run_name"] == TRACKING["run_name"]
    assert tracker_settings({}) == {}
    prepare_wandb({}, tmp_path, unset := {})
    assert unset == {}
    prepare_wandb(TRACKING, tmp_path, again := {})
    prepare_wandb(TRACKING, tmp_path / "another", other := {})
    assert identity == again["WANDB_RUN_ID"] != other["WANDB_RUN_ID"]
