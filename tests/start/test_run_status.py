"""The state of one run, from its files, the holder of its lock, and Slurm's list of jobs."""

import errno
import fcntl
import json
import os

import pytest

from reward_ablation.cluster.job_names import job_name, prefix
from reward_ablation.cluster.slurm import SlurmJob
from reward_ablation.start import history
from reward_ablation.start.decide import Decisions
from reward_ablation.start.history import is_held
from reward_ablation.start.signs import BRIEF, Signs
from reward_ablation.start.status import SILENT, State, read_status
from reward_ablation.study.core_digest import training_modules
from reward_ablation.study.heartbeat import STARTING
from reward_ablation.study.resolve import resolve
from reward_ablation.study.run_folder import HIDDEN_RECORD, LOCK
from reward_ablation.system.locks import take

from .left_behind import NOW, LeftBehind, attempt

LAST_STEP = "step 40/40: reward 0.400, 0 s left\n"
KILLED = "Traceback (most recent call last):\n  File\nValueError: no\n"


@pytest.fixture
def left(config, tmp_path):
    """A study of four runs on two GPUs each, nothing of it on disk."""
    config["launch"] = {"gpus": 2}
    config["training"]["max_steps"] = 40
    return LeftBehind(resolve(config, "study.yaml", tmp_path))


@pytest.fixture
def run(left):
    """Its first run."""
    return left.runs[0]


def look(left, *jobs, **kept):
    """The status of the first run."""
    status = read_status(Decisions(left.study, **kept), list(jobs), now=NOW)
    assert [each.state for each in status.runs[1:]] == [State.NOT_STARTED] * 3
    return status.runs[0]


def job_of(left, state, number=17, start=None, end=None):
    name = job_name(prefix(left.study.config.name, left.root), "train", left.runs[0].name)
    nodes = "" if state == "PENDING" else "n3"
    return SlurmJob(str(number), name, state, "None", nodes, start, end)


def outdated(left, run):
    modules = {**training_modules(run.arm_spec.functions), "reward_ablation.gram.x": "0"}
    left.finish(run, attempt(1800), code="0" * 16, modules=modules)


def stopped(left, run, why="SIGTERM", age=0.0):
    left.work(run, attempt(1800, why), checkpoint=12)
    left.stopped(run, 12, why, age=age)


def at_work(left, run, then="", age=0.0):
    left.work(run, attempt(1800), attempt(10), checkpoint=10)
    left.at_step(run, 12, age=age, then=then)


def several(*makes):
    return lambda left, run: [make(left, run) for make in makes]


def logged(text, age=0.0):
    return lambda left, run: left.log(run, text, age=age)


def finished(*attempts, **changes):
    return lambda left, run: left.finish(run, *attempts, **changes)


def folder(left, run):
    left.folder(run)


#: What is left of a run, the run's state, and what else its status says.
AT_REST = {
    "nothing": (several(), State.NOT_STARTED, {}),
    "finished": (finished(attempt(1800, "SIGTERM"), attempt(900)), State.DONE, {"hours": 1.5, "finished": NOW - 3600}),
    "finished, its record is put back": (finished(attempt(1800), name=HIDDEN_RECORD), State.DONE,
        {"why": "trained, its run.json is put back", "finished": NOW - 3600}),
    "of other code, an attempt before it failed": (several(outdated, logged(KILLED, 3700)), State.STALE,
        {"why": "training code changed: gram/x.py", "hours": 1}),
    "of other code, and failed since": (several(outdated, logged(KILLED, 60)), State.FAILED, {}),
    "of other code, Snakemake has removed its record": (
        several(finished(attempt(1800), name=HIDDEN_RECORD, code="0" * 16), logged(LAST_STEP, 3700)), State.STALE, {}),
    "started just now": (several(folder, logged("", BRIEF / 2)), State.RUNNING, {}),
    "started, and silent since": (several(folder, logged("", BRIEF * 2)), State.FAILED, {}),
    "stopped in order": (stopped, State.INTERRUPTED, {"goes_on_from": 12, "attempts": 1, "hours": 1}),
    "stopped in order, its other processes failed": (several(stopped, logged(KILLED)), State.INTERRUPTED,
        {"error": ""}),
    "stopped in order, by an error": (several(stopped, logged("error: disk: full\n")), State.FAILED, {}),
    "an attempt before was stopped in order": (
        several(lambda left, run: stopped(left, run, age=BRIEF * 2), logged(KILLED)), State.FAILED, {}),
    "without a log": (lambda left, run: left.work(run, checkpoint=12), State.INTERRUPTED,
        {"goes_on_from": 12, "attempts": None}),
    "ended without a word": (at_work, State.FAILED, {"goes_on_from": 10, "attempts": 2}),
    "failed before it took its lock": (logged(KILLED), State.FAILED, {"error": "ValueError: no"}),
}  # fmt: skip


@pytest.mark.parametrize(("make", "state", "says"), AT_REST.values(), ids=AT_REST.keys())
def test_a_run_that_no_process_holds(left, run, make, state, says):
    make(left, run)
    found = look(left)
    assert found.state is state
    assert {name: found.signs.error if name == "error" else getattr(found, name) for name in says} == says


def test_hours_without_a_gpu_are_those_of_its_threads(config, tmp_path):
    config["launch"] = {"gpus": 0, "threads": 4}
    left = LeftBehind(resolve(config, "study.yaml", tmp_path))
    spent = attempt(1800, gpus=0) | {"threads": 4}
    spent["hardware"]["processes"] = 3
    left.finish(left.runs[0], spent)
    assert look(left).hours == 6


def test_a_run_of_other_code_is_kept_on_request_and_runs_while_its_lock_is_held(left, run):
    outdated(left, run)
    assert look(left, code_counts=False).state is State.DONE
    with take(left.folder(run) / LOCK):
        assert look(left).state is State.RUNNING


@pytest.mark.parametrize("shared", [False, True], ids=["one process", "several processes"])
def test_a_run_whose_lock_is_held_is_running(left, run, shared):
    left.work(run, attempt(1800, "SIGTERM"), attempt(90), checkpoint=10)
    left.at_step(run, 12, age=BRIEF * 2)
    with take(left.folder(run) / LOCK, shared):
        found = look(left)
        assert (found.state, found.attempts, found.hours) == (State.RUNNING, 2, pytest.approx(1.05))
        assert found.host is None  # it is this one
        left.beat(run, doing=STARTING)
        assert look(left).attempts == 3  # it has not trained yet
        for text, host in ((json.dumps({"pid": 1, "host": "n7", "since": "today"}), "n7"), ("", None)):
            (left.folder(run) / LOCK).write_text(text)  # it is empty where the disk was full
            assert look(left).host == host
    assert look(left).state is State.FAILED


def test_without_locks_a_log_that_grows_tells_that_a_run_runs(left, run, monkeypatch):
    def flock(*arguments):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    for age, then, state in (
        (SILENT / 2, "", State.RUNNING),
        (SILENT * 2, "", State.INTERRUPTED),
        (0, KILLED, State.FAILED),
    ):
        at_work(left, run, then, age)
        assert (look(left).state, look(left).held, look(left).goes_on_from) == (state, None, 10)


def test_a_lock_is_looked_at_and_not_touched(tmp_path, monkeypatch):
    path = tmp_path / ".lock"
    assert is_held(path) is None
    path.write_text("whose it was")
    before = path.stat()
    assert is_held(path) is False
    assert (path.stat().st_mtime_ns, path.read_text()) == (before.st_mtime_ns, "whose it was")
    with take(path):
        assert is_held(path) is True
    path.chmod(0o444)  # somebody else's results
    assert is_held(path) is False
    looks = iter([True, False])  # another process looked at the same instant
    monkeypatch.setattr(history, "_is_held_now", lambda _: next(looks))
    assert is_held(path) is False


#: What is left of a run, the state and the start of its Slurm job, and the run's state.
WITH_A_JOB = [
    (lambda left, run: at_work(left, run, KILLED), "PENDING", NOW + 600, State.QUEUED),
    (several(), "CONFIGURING", None, State.QUEUED),
    (at_work, "RUNNING", NOW - 100, State.RUNNING),  # where locks do not reach this machine
    (lambda left, run: stopped(left, run, age=100), "COMPLETING", NOW - 1000, State.INTERRUPTED),
]


@pytest.mark.parametrize(("make", "of_job", "start", "state"), WITH_A_JOB)
def test_a_run_with_a_slurm_job(left, run, make, of_job, start, state):
    make(left, run)
    found = look(left, job_of(left, of_job, start=start))
    assert found.state is state
    assert of_job == "COMPLETING" or found.job.id == "17"


def test_a_job_that_runs_and_does_not_train_yet(left, run):
    stopped(left, run, "time limit", age=100)
    found = look(left, job_of(left, "RUNNING", start=NOW - 10))
    assert (found.state, found.signs, found.attempts) == (State.RUNNING, Signs(), 2)


def test_how_a_job_ended_is_told_where_it_was_the_end_of_the_run(left, run):
    lost = job_of(left, "NODE_FAIL", number=17, end=NOW - 50)
    earlier = job_of(left, "TIMEOUT", number=16, end=NOW - 5000)
    assert look(left, lost).job.state == "NODE_FAIL"  # before anything was written
    left.work(run, checkpoint=10)
    left.at_step(run, 12, age=100)
    assert (look(left, lost, earlier).state, look(left, lost, earlier).job) == (State.FAILED, lost)
    assert look(left, earlier).job is None  # it was trained since
    assert look(left, lost, job_of(left, "COMPLETED", number=18, end=NOW - 10)).job is None
    assert look(left, lost, job_of(left, "PENDING", number=18)).job.id == "18"
    with take(left.folder(run) / LOCK):
        assert look(left, lost).job is None


def test_jobs_of_other_studies_are_none_of_this_ones(left, tmp_path):
    name = job_name(prefix(left.study.config.name, tmp_path / "elsewhere"), "train", left.runs[0].name)
    assert look(left, SlurmJob("9", name, "RUNNING", "None", "n1", None, None)).state is State.NOT_STARTED
