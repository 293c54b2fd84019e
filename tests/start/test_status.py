"""The state of each run and of the study, as `status` and `watch` tell it; tests/slurm asks while a study trains."""

import errno
import fcntl
import json
import os
import time

import pytest

from reward_ablation.cluster.job_names import job_name, prefix
from reward_ablation.cluster.slurm import SlurmJob
from reward_ablation.start import watched as module
from reward_ablation.start.decide import Decisions
from reward_ablation.start.signs import BRIEF, TAIL, Signs, read_log_end
from reward_ablation.start.status import SILENT, WIDTH, State, ask_slurm, read_status, status_text
from reward_ablation.start.watched import watched
from reward_ablation.study.core_digest import training_modules
from reward_ablation.study.heartbeat import STARTING
from reward_ablation.study.resolve import resolve
from reward_ablation.study.run_folder import HIDDEN_RECORD, LOCK
from reward_ablation.system.errors import StudyError, one_line_errors
from reward_ablation.system.locks import take

from . import left_behind
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


def test_jobs_beside_training_that_failed(config, tmp_path):
    config["evaluation"]["metrics"] = {"flat": {"function": "constant"}}
    config["sft"] = {"data": {"source": "word_problems", "count": 5, "split": "train"}}
    left = LeftBehind(resolve(config, "study.yaml", tmp_path))
    [dataset] = left.study.datasets
    first, second, third, _ = left.runs
    for run in (first, second):
        left.finish(run, attempt(1))
    for run in (second, third):  # the third is trained again, and then evaluated
        left.answer(run.name, dataset)
    assert (status_of(left).evaluated, status_of(left).evaluations) == (1, 5)
    left.other_log("fetch/base.log", "error: hub: no network; try again\n")
    left.other_log(f"prepare/evaluation/{dataset}.log", "read 10 problems\n")  # it may be at work
    for run in (first, second, third):
        left.other_log(f"evaluate/{run.name}.log", FAILED)
    for name in ("prepare/sft", "sft/base", f"score/base/{dataset}", f"score/{second.name}/{dataset}"):
        left.other_log(f"{name}.log", FAILED)
    left.made(f"{left.study.scores_folder}/base/{dataset}.parquet", "scores")
    failed = [job.what for job in status_of(left).failed_jobs]
    assert failed == [
        "fetch the base model",
        "prepare the demonstrations",
        "learn the demonstrations",
        f"evaluate {first.name}",
        f"score the answers of {second.name} to {dataset}",
    ]
    lines = ["failed: fetch the base model", "    error: hub: no network; try again"]
    assert "\n".join([*lines, "    log: results/study/logs/fetch/base.log"]) in text_of(left)
    left.made(left.study.fetched_file, "{}")
    assert [job.what for job in status_of(left).failed_jobs] == failed[1:]


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


LAST_STEP = "step 40/40: reward 0.400, 0 s left\n"


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
    "of other code, an attempt before it failed": (several(outdated, logged(FAILED, 3700)), State.STALE,
        {"why": "training code changed: gram/x.py", "hours": 1}),
    "of other code, and failed since": (several(outdated, logged(FAILED, 60)), State.FAILED, {}),
    "of other code, Snakemake has removed its record": (
        several(finished(attempt(1800), name=HIDDEN_RECORD, code="0" * 16), logged(LAST_STEP, 3700)), State.STALE, {}),
    "started just now": (several(folder, logged("", BRIEF / 2)), State.RUNNING, {}),
    "started, and silent since": (several(folder, logged("", BRIEF * 2)), State.FAILED, {}),
    "stopped in order": (stopped, State.INTERRUPTED, {"goes_on_from": 12, "attempts": 1, "hours": 1}),
    "stopped in order, its other processes failed": (several(stopped, logged(FAILED)), State.INTERRUPTED,
        {"error": ""}),
    "stopped in order, by an error": (several(stopped, logged("error: disk: full\n")), State.FAILED, {}),
    "an attempt before was stopped in order": (
        several(lambda left, run: stopped(left, run, age=BRIEF * 2), logged(FAILED)), State.FAILED, {}),
    "ended without a word": (at_work, State.FAILED, {"goes_on_from": 10, "attempts": 2}),
    "failed before it took its lock": (logged(FAILED), State.FAILED, {"error": "ValueError: no"}),
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
        (left.folder(run) / LOCK).chmod(0o444)  # somebody else's results
        assert look(left).held is True
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
        (0, FAILED, State.FAILED),
    ):
        at_work(left, run, then, age)
        assert (look(left).state, look(left).held, look(left).goes_on_from) == (state, None, 10)


#: What is left of a run, the state and the start of its Slurm job, and the run's state.
WITH_A_JOB = [
    (lambda left, run: at_work(left, run, FAILED), "PENDING", NOW + 600, State.QUEUED),
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


@pytest.fixture
def live(config, tmp_path, monkeypatch):
    """A study of four runs whose files are of now."""
    monkeypatch.setattr(left_behind, "NOW", time.time())
    monkeypatch.setattr(module, "ask_slurm", lambda: ([], "it does not answer"))
    config["arms"]["arms"]["same"] = config["arms"]["arms"]["a"]
    return LeftBehind(resolve(config, "study.yaml", tmp_path))


def test_states_are_those_of_status(live):
    done, trains, failed, _ = live.runs
    live.finish(done, attempt(3600.0, "done"))
    live.at_step(trains, 10)
    live.at_step(failed, 4, then="error: the judge does not answer\n", age=100)
    live.other_log("evaluate/base.log", "error: no space\n")
    watch = watched(live.study, code_counts=True)
    with take(live.folder(trains) / LOCK):
        states = watch.states()
    assert [run.state for run in states.runs] == ["done", "running", "failed", "not started"]
    assert [run.done for run in states.runs] == [1.0, 0.25, 0.1, None]
    assert [run.step for run in states.runs] == ["", "step 10 of 40", "step 4 of 40", ""]
    assert states.runs[1].facts.startswith("step 10 of 40, reward 0.100, ")
    assert states.runs[2].facts == "error: the judge does not answer"
    assert states.counts == "1 running, 1 failed, 1 done, 1 not started"
    assert states.lines == [
        "0 of 5 evaluations are done, the base model's included.",
        "failed: evaluate base: error: no space (log: results/study/logs/evaluate/base.log)",
        "which runs wait at Slurm is not known: it does not answer",
    ]


def test_arms_with_one_spec_are_drawn_once(live):
    about = watched(live.study, code_counts=True).about
    assert [arm["name"] for arm in about["arms"]] == ["a = same", "b", "same"]
    assert [(run["arm"], run["seed"]) for run in about["runs"]] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_a_run_that_diverges_meanwhile_is_seen(live):
    reader = module.StateReader(live.study, code_counts=True)
    assert reader.read().runs[0].state == "not started"
    live.diverge(live.runs[0])
    assert reader.read().runs[0].state == "diverged"


def test_slurm_is_asked_once_a_minute(live, monkeypatch):
    asked = []
    monkeypatch.setattr(module, "ask_slurm", lambda: (asked.append(0) or [], ""))
    reader = module.StateReader(live.study, code_counts=True)
    reader.read()
    reader.read()
    assert len(asked) == 1
    monkeypatch.setattr(module, "SLURM_EVERY", -1.0)
    reader.read()
    assert len(asked) == 2


STEP = "step 3/40: reward 1.320 (correctness 0.250), 20 tokens, 11 s left\n"
TRACEBACK = 'Traceback (most recent call last):\n  File "run.py", line 3, in train\n    step()\n    ~~~~^^\n'


@pytest.mark.parametrize(
    ("text", "error", "unexpected", "last"),
    [
        ("", "", False, ""),
        ("Loading weights:   0%|  | 0/26\rLoading weights: 100%|##| 26/26\r\n", "", False, "26"),
        (STEP + "error: disk: full; free space\n", "error: disk: full; free space", False, "free space"),
        # what a user can mend counts
        ("failed: OSError: peer\n" + TRACEBACK + "OSError\nerror: disk: full\n", "error: disk: full", False, "full"),
        ("failed: ValueError: no\n" + TRACEBACK + "ValueError: no\n", "ValueError: no", True, "no"),
        # of several processes the first to fail takes the others along
        ("failed: ValueError: real\nfailed: RuntimeError: Connection closed by peer\n[rank1]: ValueError: real\n",
         "ValueError: real", True, "real"),
        # what was said before an orderly stop, or caught while training went on, ended nothing
        ("error: judge answered 503, trying again\n" + STEP + "train: stopped at step 3: SIGTERM\n", "", False, "TERM"),
        (TRACEBACK + "ValueError: caught\n" + STEP, "", False, "left"),
        ("train: stopped at step 3 of 40\nerror: disk: full\n", "error: disk: full", False, "full"),
        # before a command has begun, or by an older version
        (TRACEBACK + "ModuleNotFoundError: No module named 'trl'\n", "ModuleNotFoundError: No module", True, "'trl'"),
        # what a model writes into a log moves no cursor
        ("\x1b[2J\x07over\n", "", False, "[2J  over"),
    ],
)  # fmt: skip
def test_how_a_log_ends(tmp_path, text, error, unexpected, last):
    path = tmp_path / "seed0.log"
    path.write_text(text)
    os.utime(path, (1000, 1000))
    log = read_log_end(path)
    assert log.error.startswith(error)
    assert (bool(log.error), log.unexpected, log.changed) == (bool(error), unexpected, 1000)
    assert log.last.endswith(last.removeprefix("[2J  ")) if last else not log.last


def test_the_error_of_a_command_is_read(tmp_path, capsys):
    for raised, error in (
        (StudyError("disk: full"), "error: disk: full"),
        (ValueError("no\n  way \x1b[2J"), r"ValueError: no way \x1b[2J"),
    ):
        with pytest.raises((SystemExit, ValueError)), one_line_errors():
            raise raised
        (tmp_path / "seed0.log").write_text(capsys.readouterr().err)
        found = read_log_end(tmp_path / "seed0.log")
        assert (found.error, found.unexpected) == (error, type(raised) is ValueError)


def test_of_a_long_log_the_end_is_read(tmp_path):
    path = tmp_path / "seed0.log"
    path.write_text("error: long ago\n" + "x" * (3 * TAIL) + "\n" + STEP)
    assert (read_log_end(path).error, read_log_end(path).last) == ("", STEP.strip())


def test_where_there_is_no_log(tmp_path):
    assert read_log_end(tmp_path / "none.log") is None
    (tmp_path / "file").touch()
    assert read_log_end(tmp_path / "file" / "none.log") is None
