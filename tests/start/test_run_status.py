"""The state of one run, from its files, the holder of its lock, and Slurm's list of jobs."""

import errno
import fcntl
import json
import multiprocessing
import os
from contextlib import contextmanager

import pytest

from reward_ablation.cluster.job_names import job_name, prefix
from reward_ablation.cluster.slurm import SlurmJob
from reward_ablation.start.decide import Decisions
from reward_ablation.start.history import is_held
from reward_ablation.start.signs import BRIEF, Signs
from reward_ablation.start.status import SILENT, State, read_status
from reward_ablation.study.core_digest import training_modules
from reward_ablation.study.heartbeat import STARTING, TRAINING
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


@contextmanager
def on_another_process(path, shared=False):
    """Hold a lock in a process of its own."""
    here, there = multiprocessing.Pipe()

    def hold():
        with take(path, shared):
            there.send("held")
            there.recv()

    child = multiprocessing.get_context("fork").Process(target=hold)
    child.start()
    try:
        assert here.recv() == "held"
        yield
    finally:
        here.send("done")
        child.join()


@pytest.fixture
def no_locks(monkeypatch):
    """A file system without locks, as far as `flock` tells."""

    def flock(*arguments):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)


def test_a_run_of_which_there_is_nothing(left):
    assert look(left).state is State.NOT_STARTED


def test_a_finished_run_with_its_hours(left, run):
    left.finish(run, attempt(1800, "SIGTERM"), attempt(900, "done"))
    found = look(left)
    assert (found.state, found.hours, found.finished) == (State.DONE, 1.5, NOW - 3600)
    left.log(run, KILLED)  # whatever a log says
    assert look(left).state is State.DONE


def test_hours_without_a_gpu_are_those_of_its_threads(config, tmp_path):
    config["launch"] = {"gpus": 0, "threads": 4}
    left = LeftBehind(resolve(config, "study.yaml", tmp_path))
    spent = attempt(1800, gpus=0) | {"threads": 4}
    left.finish(left.runs[0], spent)
    assert look(left).hours == 2
    spent["hardware"]["processes"] = 3
    left.finish(left.runs[0], spent)
    assert look(left).hours == 6


def test_a_record_that_is_put_back_is_a_finished_run(left, run):
    left.finish(run, attempt(1800), name=HIDDEN_RECORD)
    found = look(left)
    assert (found.state, found.why) == (State.DONE, "trained, its run.json is put back")
    assert found.finished == NOW - 3600


def test_a_run_of_other_code_is_out_of_date_and_says_why(left, run):
    modules = {**training_modules(run.arm_spec.functions), "reward_ablation.gram.x": "0"}
    left.finish(run, attempt(1800), code="0" * 16, modules=modules)
    left.log(run, LAST_STEP, age=3700)
    found = look(left)
    assert (found.state, found.why, found.hours) == (State.STALE, "training code changed: gram/x.py", 1)
    assert look(left, code_counts=False).state is State.DONE  # it is kept
    left.log(run, KILLED, age=3700)  # the attempt before the one that was finished
    assert look(left).state is State.STALE
    left.log(run, KILLED, age=60)
    assert look(left).state is State.FAILED
    with take(left.folder(run) / LOCK):
        assert look(left).state is State.RUNNING


def test_a_run_whose_record_snakemake_has_removed_to_train_it_again_has_not_failed(left, run):
    left.finish(run, attempt(1800), name=HIDDEN_RECORD, code="0" * 16)
    left.log(run, LAST_STEP, age=3700)
    assert look(left).state is State.STALE
    assert look(left).why.startswith("training code changed")


def test_a_record_that_cannot_be_read(left, run):
    (left.folder(run) / "run.json").write_text("{")
    assert (look(left).state, look(left).why) == (State.STALE, "its run.json cannot be read")


@pytest.mark.parametrize("shared", [False, True], ids=["one process", "several processes"])
def test_a_run_whose_lock_is_held_is_running(left, run, shared):
    left.work(run, attempt(1800, "SIGTERM"), attempt(90), checkpoint=10)
    left.at_step(run, 12, age=7)
    with on_another_process(left.folder(run) / LOCK, shared):
        found = look(left)
    assert (found.state, found.attempts, found.hours) == (State.RUNNING, 2, pytest.approx(1.05))
    assert (found.signs.beat.step, found.signs.beat.steps, found.signs.beat.reward) == (12, 40, 0.12)
    assert found.host is None  # it is this one
    assert look(left).state is State.FAILED


def test_the_other_machine_that_a_run_is_trained_on(left, run):
    left.work(run)
    left.log(run, "")
    with take(left.folder(run) / LOCK):
        (left.folder(run) / LOCK).write_text(json.dumps({"pid": 1, "host": "n7", "since": "today"}))
        assert look(left).host == "n7"
        (left.folder(run) / LOCK).write_text("")  # its disk was full
        assert look(left).host is None


def test_a_run_that_has_only_just_been_started(left, run):
    left.folder(run)
    left.log(run, "", age=BRIEF / 2)
    assert look(left).state is State.RUNNING
    left.log(run, "", age=BRIEF * 2)
    assert look(left).state is State.FAILED


def test_a_second_attempt_that_has_not_trained_yet_is_counted(left, run):
    left.work(run, attempt(1800, "SIGTERM"), checkpoint=10)
    left.log(run, "Loading weights: 100%\n")
    left.beat(run, doing=STARTING)
    with take(left.folder(run) / LOCK):
        assert look(left).attempts == 2
        left.beat(run, step=10, steps=40)
        left.work(run, attempt(1800, "SIGTERM"), attempt(1), checkpoint=10)
        assert look(left).attempts == 2


def test_a_run_that_was_stopped_in_order_goes_on(left, run):
    left.work(run, attempt(1800, "SIGTERM"), checkpoint=12)
    left.stopped(run, 12, "SIGTERM")
    found = look(left)
    assert (found.state, found.goes_on_from, found.attempts, found.hours) == (State.INTERRUPTED, 12, 1, 1)
    assert found.signs.beat.why == "SIGTERM"
    left.work(run, attempt(1800, "SIGTERM"), checkpoint=12, code="0" * 16)
    assert (look(left).state, look(left).goes_on_from) == (State.INTERRUPTED, 0)


def test_unfinished_work_without_a_log_goes_on(left, run):
    left.work(run, checkpoint=12)
    assert (look(left).state, look(left).goes_on_from, look(left).attempts) == (State.INTERRUPTED, 12, None)


def test_what_an_older_version_left_is_told_by_its_attempts(left, run):
    left.work(run, attempt(1800, "time limit"), checkpoint=12)
    left.log(run, LAST_STEP)
    found = look(left)
    assert (found.state, found.goes_on_from) == (State.INTERRUPTED, 12)
    assert (found.signs.beat.step, found.signs.beat.steps, found.signs.beat.why) == (20, None, "time limit")
    left.work(run, attempt(1800, "time limit"), attempt(90), checkpoint=12)
    with take(left.folder(run) / LOCK):
        found = look(left)
    assert (found.state, found.signs.beat.doing, found.signs.beat.step) == (State.RUNNING, TRAINING, 20)


def test_processes_that_fail_because_another_one_stopped_do_not_count(left, run):
    left.work(run, attempt(1800, "SIGTERM"), checkpoint=12)
    left.stopped(run, 12, "SIGTERM")
    left.log(run, KILLED)
    assert (look(left).state, look(left).signs.error) == (State.INTERRUPTED, "")
    left.log(run, "error: disk: full\n")
    assert look(left).state is State.FAILED
    left.stopped(run, 12, "SIGTERM", age=BRIEF * 2)  # an attempt before this one
    left.log(run, KILLED)
    assert look(left).state is State.FAILED


@pytest.mark.parametrize("words", [KILLED, "error: disk: full\n", ""], ids=["traceback", "error", "without a word"])
def test_a_run_that_ended_otherwise_has_failed_and_goes_on_all_the_same(left, run, words):
    left.work(run, attempt(1800), attempt(10), checkpoint=10)
    left.at_step(run, 12, then=words)
    found = look(left)
    assert (found.state, found.goes_on_from, found.attempts) == (State.FAILED, 10, 2)
    assert bool(found.signs.error) == bool(words)


def test_a_log_whose_run_was_deleted_tells_of_nothing(left, run):
    left.log(run, LAST_STEP)
    assert look(left).state is State.NOT_STARTED


def test_a_process_that_failed_before_it_took_its_lock(left, run):
    left.log(run, KILLED)
    assert look(left).state is State.FAILED


def test_without_locks_a_log_that_grows_tells_that_a_run_runs(left, run, no_locks):
    left.work(run, checkpoint=10)
    left.at_step(run, 12, age=SILENT / 2)
    assert (look(left).state, look(left).held) == (State.RUNNING, None)
    left.at_step(run, 12, age=SILENT * 2)
    assert (look(left).state, look(left).goes_on_from) == (State.INTERRUPTED, 10)
    left.at_step(run, 12, then=KILLED)
    assert look(left).state is State.FAILED


def test_a_lock_is_looked_at_and_not_touched(tmp_path):
    path = tmp_path / ".lock"
    assert is_held(path) is None
    path.write_text("whose it was")
    before = path.stat()
    assert is_held(path) is False
    assert (path.stat().st_mtime_ns, path.read_text()) == (before.st_mtime_ns, "whose it was")
    with on_another_process(path):
        assert is_held(path) is True
    path.chmod(0o444)  # somebody else's results
    assert is_held(path) is False


def test_a_job_that_waits(left, run):
    left.work(run, attempt(1800, "SIGTERM"), checkpoint=12)
    left.at_step(run, 12, then=KILLED)
    found = look(left, job_of(left, "PENDING", start=NOW + 600))
    assert (found.state, found.job.id, found.goes_on_from) == (State.QUEUED, "17", 12)


@pytest.mark.parametrize("state", ["CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"])
def test_a_job_that_is_held_or_started_waits(left, state):
    assert look(left, job_of(left, state)).state is State.QUEUED


def test_a_job_that_runs_and_does_not_train_yet(left, run):
    left.work(run, attempt(1800, "SIGTERM"), checkpoint=12)
    left.stopped(run, 12, "time limit", age=100)
    found = look(left, job_of(left, "RUNNING", start=NOW - 10))
    assert (found.state, found.signs, found.attempts) == (State.RUNNING, Signs(), 2)


@pytest.mark.parametrize("state", ["RUNNING", "SUSPENDED"])
def test_a_job_that_runs_where_locks_do_not_reach_this_machine(left, run, state):
    """As on Lustre with localflock: the lock looks free."""
    left.work(run, attempt(90))
    left.at_step(run, 12, age=20)
    found = look(left, job_of(left, state, start=NOW - 100))
    assert (found.state, found.signs.beat.step, found.job.nodes) == (State.RUNNING, 12, "n3")


def test_a_job_that_is_ending_leaves_it_to_the_log(left, run):
    left.work(run, checkpoint=12)
    left.stopped(run, 12, "time limit", age=100)
    assert look(left, job_of(left, "COMPLETING", start=NOW - 1000)).state is State.INTERRUPTED


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
