"""The state of a study: from made-up folders, and while a real study is trained."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from reward_ablation.start.decide import Decisions
from reward_ablation.start.status import State, ask_slurm, read_status, status_text
from reward_ablation.study.resolve import resolve
from slurm.studies import SLOW
from workflow.conftest import TINY

from .left_behind import NOW, LeftBehind, attempt

ROOT = Path(__file__).parents[2]
FAILED = "Traceback (most recent call last):\n  File\nValueError: no\n"


@pytest.fixture
def left(config, tmp_path):
    """A study of four runs, nothing of it on disk."""
    return LeftBehind(resolve(config, "study.yaml", tmp_path))


def status_of(left):
    return read_status(Decisions(left.study), [], now=NOW)


def test_answers_are_counted_and_those_of_runs_that_are_to_be_trained_are_not(left):
    [dataset] = left.study.datasets
    first, second, *_ = left.runs
    left.finish(first, attempt(1))
    for model in ("base", first.name, second.name):
        left.answer(model, dataset)
    assert (status_of(left).evaluated, status_of(left).evaluations) == (2, 5)


def test_jobs_beside_training_that_failed(left):
    [dataset] = left.study.datasets
    first, second, third, _ = left.runs
    for run in (first, second):
        left.finish(run, attempt(1))
    left.answer(second.name, dataset)
    left.other_log("fetch/base.log", "error: hub: no network; try again\n")
    left.other_log(f"prepare/evaluation/{dataset}.log", "read 10 problems\n")  # it may be at work
    for run in (first, second, third):
        left.other_log(f"evaluate/{run.name}.log", FAILED)
    assert [(job.what, job.error, job.log) for job in status_of(left).failed_jobs] == [
        ("fetch the base model", "error: hub: no network; try again", "results/study/logs/fetch/base.log"),
        (
            f"evaluate {first.name}",
            "ValueError: no",
            f"results/study/logs/evaluate/{first.name}.log",
        ),
    ]
    lines = status_text(status_of(left)).splitlines()
    at = lines.index("failed: fetch the base model")
    assert lines[at + 1 : at + 3] == [
        "    error: hub: no network; try again",
        "    log: results/study/logs/fetch/base.log",
    ]
    (left.root / left.study.model_file).parent.mkdir(parents=True)
    (left.root / left.study.model_file).touch()
    assert [job.what for job in status_of(left).failed_jobs] == [f"evaluate {first.name}"]


def test_a_scoring_that_failed_is_told(config, tmp_path):
    config["evaluation"]["metrics"] = {"flat": {"function": "constant"}}
    left = LeftBehind(resolve(config, "study.yaml", tmp_path))
    [dataset] = left.study.datasets
    first, second, *_ = left.runs
    left.finish(first, attempt(1))
    for model in ("base", first.name, second.name):
        left.other_log(f"score/{model}/{dataset}.log", FAILED)
    scores = left.root / left.study.scores_folder / "base" / f"{dataset}.parquet"
    scores.parent.mkdir(parents=True)
    scores.touch()
    assert [job.what for job in status_of(left).failed_jobs] == [f"score the answers of {first.name} to {dataset}"]


def test_a_supervised_start_that_failed_is_told(config, tmp_path):
    config["sft"] = {"data": {"source": "word_problems", "count": 5, "split": "train"}}
    left = LeftBehind(resolve(config, "study.yaml", tmp_path))
    left.other_log("prepare/sft.log", FAILED)
    left.other_log("sft/base.log", FAILED)
    assert [job.what for job in status_of(left).failed_jobs] == [
        "prepare the demonstrations",
        "learn the demonstrations",
    ]


def test_many_failures_are_not_all_told(config, tmp_path):
    config["seeds"] = list(range(40))
    left = LeftBehind(resolve(config, "study.yaml", tmp_path))
    for run in left.runs:
        left.finish(run, attempt(1))
        left.other_log(f"evaluate/{run.name}.log", FAILED)
    assert "and 60 more failed" in status_text(status_of(left))


def test_nothing_is_written(left):
    left.finish(left.runs[0], attempt(1))
    left.work(left.runs[1], attempt(1), checkpoint=2)
    before = {path: path.stat().st_mtime_ns for path in left.root.rglob("*")}
    status_of(left)
    assert {path: path.stat().st_mtime_ns for path in left.root.rglob("*")} == before


def commands_in(folder: Path, monkeypatch, **scripts: str) -> None:
    """Put these shell scripts on PATH, as the only commands."""
    folder.mkdir()
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def test_a_machine_without_slurm_has_no_jobs_and_says_nothing(tmp_path, monkeypatch):
    commands_in(tmp_path / "bin", monkeypatch)
    assert ask_slurm() == ([], "")


def test_a_slurm_that_does_not_answer_is_told_in_a_line(tmp_path, monkeypatch):
    unreachable = "echo 'squeue: error: Unable to contact slurm controller (connect failure)' >&2; exit 1"
    commands_in(tmp_path / "bin", monkeypatch, squeue=unreachable)
    jobs, why = ask_slurm()
    assert jobs == []
    assert why == "squeue: Unable to contact slurm controller (connect failure)"


#: The smallest study that takes a while: two runs of as many seconds a step as a test says.
SMALL = {
    **TINY,
    "name": "small",
    "components": {"length": TINY["components"]["length"], "held": {"function": "slow.py:slow"}},
    "arms": {"design": "list", "arms": {"length": {"weights": {"length": 1}}}},
    "training": {**TINY["training"], "max_steps": 12},
    "gradients": {"every": "off"},
}


class Small:
    """The small study in a folder, started as a user does."""

    def __init__(self, folder: Path):
        self.folder = folder
        (folder / "config.yaml").write_text(yaml.safe_dump(SMALL, sort_keys=False))
        (folder / "slow.py").write_text(SLOW)

    def command(self, *arguments: str) -> list[str]:
        command = [sys.executable, "-m", "snakemake", *arguments, "--snakefile", str(ROOT / "Snakefile")]
        return [*command, "--directory", str(self.folder), "--cores", "1", "--configfile", "config.yaml"]

    def status(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "reward_ablation.start.command_line", "status", "config.yaml", *arguments]
        result = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    def status_with(self, expected: str, process: subprocess.Popen) -> str:
        """Ask again until the answer has the text, while Snakemake runs."""
        while process.poll() is None:
            text = self.status()
            if re.search(expected, text):
                return text
            time.sleep(2)  # an answer takes as much CPU time
        pytest.fail(f"{expected!r} was never told")

    @contextmanager
    def running(self):
        """Snakemake while it trains and evaluates. It is killed in the end if it still runs."""
        with (self.folder / "snakemake.log").open("w") as log:
            process = subprocess.Popen(
                self.command("--until", "evaluate", "evaluate_base"),
                cwd=self.folder, start_new_session=True, stdout=log, stderr=log,
            )  # fmt: skip
            try:
                yield process
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@pytest.mark.slow
def test_a_study_is_asked_before_while_and_after_it_is_trained(tmp_path):
    small = Small(tmp_path)
    assert small.status().startswith("study small, 2 runs: 2 not started\n")
    (tmp_path / "slow").write_text("2")  # a run takes much longer than the question
    with small.running() as snakemake:
        text = small.status_with(r"seed\d +running +step \d+ of 12, reward \d\.\d{3}", snakemake)
        assert text.startswith("study small, 2 runs: 1 running, 1 not started\n")
        os.killpg(snakemake.pid, signal.SIGINT)  # Ctrl-C
        snakemake.wait()
        deadline = time.monotonic() + 60  # the trainer saves its checkpoint and may outlive Snakemake
        while "running" in (text := small.status()) and time.monotonic() < deadline:
            time.sleep(1)
    assert text.startswith("study small, 2 runs: 1 interrupted, 1 not started\n")
    [step] = re.findall(r"stopped at step (\d+) of 12: SIGINT, goes on from step \1\n", text)
    assert int(step) > 0
    (tmp_path / "slow").unlink()
    with small.running() as snakemake:
        assert snakemake.wait() == 0, (tmp_path / "snakemake.log").read_text()
    text = small.status()
    assert text.startswith("study small, 2 runs: 2 done\n")
    assert "evaluations: 3 of 3 done" in text
    assert re.search(r"^0\.\d+ CPU hours of training so far$", text, re.MULTILINE)
    [run] = tmp_path.glob("results/small/runs/*/seed1")
    shutil.rmtree(run)
    [log] = tmp_path.glob("results/small/logs/train/*/seed1.log")
    log.write_text("error: no luck\n")
    text = small.status()
    assert text.startswith("study small, 2 runs: 1 failed, 1 done\n")
    assert f"    error: no luck\n    log: {log.relative_to(tmp_path)}\n" in text
    assert State.FAILED in text
