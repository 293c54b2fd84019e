"""The state of a study and its text, from made-up folders; tests/slurm asks for it while a study is trained."""

import time

import pytest

from reward_ablation.cluster.job_names import job_name, prefix
from reward_ablation.cluster.slurm import SlurmJob
from reward_ablation.start.decide import Decisions
from reward_ablation.start.status import SILENT, WIDTH, ask_slurm, read_status, status_text
from reward_ablation.study.resolve import resolve
from reward_ablation.study.run_folder import LOCK
from reward_ablation.system.locks import take

from .left_behind import NOW, LeftBehind, attempt

FAILED = "Traceback (most recent call last):\n  File\nValueError: no\n"
HOUR_AGO = time.strftime("%Y-%m-%d %H:%M", time.localtime(NOW - 3600))


@pytest.fixture
def config(config):
    config["launch"] = {"gpus": 2}
    config["training"]["max_steps"] = 40
    return config


@pytest.fixture
def left(config, tmp_path):
    """A study of four runs, nothing of it on disk."""
    return LeftBehind(resolve(config, "study.yaml", tmp_path))


def status_of(left, *jobs):
    return read_status(Decisions(left.study), list(jobs), now=NOW)


def text_of(left, *jobs):
    return status_text(status_of(left, *jobs))


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
        (f"evaluate {first.name}", "ValueError: no", f"results/study/logs/evaluate/{first.name}.log"),
    ]
    lines = ["failed: fetch the base model", "    error: hub: no network; try again"]
    assert "\n".join([*lines, "    log: results/study/logs/fetch/base.log"]) in text_of(left)
    left.made(left.study.model_file, "{}")
    assert [job.what for job in status_of(left).failed_jobs] == [f"evaluate {first.name}"]


def test_failed_scorings_and_a_failed_supervised_start_are_told(config, tmp_path):
    config["evaluation"]["metrics"] = {"flat": {"function": "constant"}}
    config["sft"] = {"data": {"source": "word_problems", "count": 5, "split": "train"}}
    left = LeftBehind(resolve(config, "study.yaml", tmp_path))
    [dataset] = left.study.datasets
    first, second, *_ = left.runs
    left.finish(first, attempt(1))
    scorings = [f"score/{model}/{dataset}" for model in ("base", first.name, second.name)]
    for name in ("prepare/sft", "sft/base", *scorings):
        left.other_log(f"{name}.log", FAILED)
    left.made(f"{left.study.scores_folder}/base/{dataset}.parquet", "scores")
    assert [job.what for job in status_of(left).failed_jobs] == [
        "prepare the demonstrations",
        "learn the demonstrations",
        f"score the answers of {first.name} to {dataset}",
    ]


def test_no_slurm_is_not_told_and_one_that_does_not_answer_is(left, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ask_slurm() == ([], "")
    (tmp_path / "squeue").write_text("#!/bin/sh\necho 'squeue: error: Unable to contact it (no route)' >&2; exit 1\n")
    (tmp_path / "squeue").chmod(0o755)
    jobs, why = ask_slurm()
    line = "which runs wait at Slurm is not known: squeue: Unable to contact it (no route)"
    assert line in status_text(status_of(left, *jobs), why).splitlines()


def jobs_of(left, **states):
    """Slurm's jobs of runs, by their numbers."""
    of_study = prefix(left.study.config.name, left.root)
    jobs = []
    for number, (run, state) in enumerate(states.items(), 17):
        name = job_name(of_study, "train", left.runs[int(run.removeprefix("run"))].name)
        waits = state == "PENDING"
        reason = "Priority" if waits else "None"
        jobs.append(SlurmJob(str(number), name, state, reason, "" if waits else "n3", NOW - 100, NOW - 10))
    return jobs


def rows_of(text):
    """The status row of each run, by the run's name."""
    return {line.split()[0]: " ".join(line.split()[1:]) for line in text.splitlines()[2:] if "/seed" in line[:30]}


def test_a_run_in_each_state(config, tmp_path):
    config["seeds"] = list(range(4))
    left = LeftBehind(resolve(config, "study.yaml", tmp_path))
    done, running, queued, failed, killed, stopped, old, _ = left.runs
    left.finish(done, attempt(1800, "SIGTERM"), attempt(900, "done"))
    left.work(running, attempt(1800, "SIGTERM"), attempt(90), checkpoint=10)
    left.at_step(running, 12, age=20)
    left.work(queued, attempt(900, "time limit"), checkpoint=10)
    left.work(failed, attempt(9), attempt(9), checkpoint=10)
    full = "error: /scratch/results: No space left on device; what is done is kept: free space there, then run the "
    left.at_step(failed, 12, age=100, then=full + "same command again\n")
    left.work(killed, attempt(9))
    left.at_step(killed, 2, age=100)
    left.work(stopped, attempt(9), checkpoint=20)
    left.stopped(stopped, 20, "SIGTERM", age=100)
    left.finish(old, attempt(1800), code="0" * 16)
    a, b = (left.study.folders[left.study.keys[arm]] for arm in "ab")
    with take(left.folder(running) / LOCK):
        text = text_of(left, *jobs_of(left, run1="RUNNING", run2="PENDING", run4="OUT_OF_MEMORY"))
    assert text.splitlines() == [
        "study study, 8 runs: 1 running, 1 queued, 2 failed, 1 interrupted, 1 done, 1 out of date, 1 not started",
        "",
        f"{a}/seed0  done         1.5 GPU hours, {HOUR_AGO}",
        f"{a}/seed1  running      step 12 of 40, reward 0.120, 2 min left, job 17 on n3, attempt 2",
        f"{a}/seed2  queued       job 18 PENDING (Priority), goes on from step 10",
        f"{a}/seed3  failed       goes on from step 10, 2 attempts",
        "    error: /scratch/results: No space left on device; what is done is kept: free space there, then run the",
        "    same command again",
        f"    log: results/study/logs/train/{a}/seed3.log",
        f"{b}/seed0  failed       job 19 ended on n3: OUT_OF_MEMORY, 1 attempt",
        "    the run ended without an error message after step 2 of 40; last line of its log: step 2/40: reward 0.020,",
        "    120 s left",
        f"    log: results/study/logs/train/{b}/seed0.log",
        f"{b}/seed1  interrupted  stopped at step 20 of 40: SIGTERM, goes on from step 20",
        f"{b}/seed2  out of date  training code changed, will be trained again",
        f"{b}/seed3  not started",
        "",
        "evaluations: 0 of 9 done, the base model's included",
        # 1.5 + (1800 + 90 + 900 + 9 + 9 + 9 + 9) / 3600 * 2 + 1
        "4.1 GPU hours of training so far",
    ]


def test_what_a_running_run_tells(left):
    run = left.runs[0]

    def told(*jobs):
        return rows_of(text_of(left, *jobs))[run.name].removeprefix("running ")

    with take(left.folder(run) / LOCK):
        assert told() == "starting"
        left.log(run, "train: waiting for process 7 on n3 (since 2026-11-20 19:00:00+00:00) to end\n")
        assert told() == "waiting for process 7 on n3 (since 2026-11-20 19:00:00+00:00) to end"
        left.log(run, "Loading weights: 100%\n", age=20)
        left.beat(run, age=10, doing="starting the vLLM server")
        assert told() == "starting the vLLM server"
        left.at_step(run, 12, left=7200, age=60)
        assert told() == "step 12 of 40, reward 0.120, 2.0 h left"
        left.at_step(run, 12, left=7200, age=60, doing="\x1b[2J")  # results of others are shown, too
        assert told() == "\\x1b[2J, step 12 of 40, reward 0.120, 2.0 h left"
        left.at_step(run, 12, left=30, age=60)  # this step takes longer than the others did
        assert told() == "step 12 of 40, reward 0.120"
        left.at_step(run, 12, left=7200, age=SILENT + 120)
        assert told() == "step 12 of 40, reward 0.120, no sign for 12 min, 1.8 h left"
    left.stopped(run, 12, "time limit")
    assert told(*jobs_of(left, run0="RUNNING")) == "its process has ended, its Slurm job has not, job 17 on n3"


def test_a_run_that_is_known_from_its_log_alone(left):
    run = left.runs[0]
    left.work(run)
    (left.folder(run) / LOCK).unlink()  # nobody can tell whether it is held
    for age, told in (
        (30, "running step 12 of 40, reward 0.120, no sign for 30 s, 2 min left"),
        (7200, "interrupted no sign after step 12 of 40 for 2.0 h, starts from the beginning"),
    ):
        left.at_step(run, 12, age=age)
        assert rows_of(text_of(left))[run.name] == told


def test_many_runs_are_told_in_a_screen(config, tmp_path):
    config["seeds"] = list(range(4))
    arms = {f"arm{number}": {"weights": {"correctness": 1, "format": number / 100}} for number in range(1, 24)}
    config["arms"]["arms"] = {"first": {"weights": {"format": 1}}, **arms}
    left = LeftBehind(resolve(config, "study.yaml", tmp_path))
    for run in left.runs[:40]:
        left.finish(run, attempt(1800))
    for run in left.runs[40:50]:
        left.work(run, attempt(9))
        left.at_step(run, 2, age=100, then="error: no luck\n")
    for run in left.runs[:24]:
        left.other_log(f"evaluate/{run.name}.log", FAILED)
    text = text_of(left, *jobs_of(left, run50="RUNNING", run51="PENDING"))
    lines = text.splitlines()
    assert lines[0] == "study study, 96 runs: 1 running, 1 queued, 10 failed, 40 done, 44 not started"
    assert set(rows_of(text)) == {run.name for run in left.runs[40:52]}
    assert f"arm first  key {left.study.keys['first']}  4 done, 4 GPU hours" in lines
    assert "and 4 more failed" in lines
    assert max(map(len, lines)) <= WIDTH
