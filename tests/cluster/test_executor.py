"""The executor: its settings, its queue, and the logs that it deletes."""

import logging
import os
import threading
import time
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import pytest
from snakemake.cli import parse_args

import snakemake_executor_plugin_slurm_study as plugin


def test_settings_that_have_an_effect_are_taken_and_no_others(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    kept = {"logdir", "keep_successful_logs", "delete_logfiles_older_than", "requeue"}
    assert {"site", "poll", "patience", *kept} == {field.name for field in fields(plugin.ExecutorSettings)}
    with pytest.raises(SystemExit):
        parse_args(["--executor", "slurm-study", "--slurm-study-array-jobs=1"])
    assert capsys.readouterr().err.endswith("error: unrecognized arguments: --slurm-study-array-jobs=1\n")
    words = ["--slurm-study-site=here.yaml", "--slurm-study-logdir=logs", "--slurm-study-requeue"]
    _, args = parse_args(["--executor", "slurm-study", *words, "--slurm-study-poll", "5"])
    assert (args.slurm_study_site, args.slurm_study_poll) == (Path("here.yaml"), 5)
    assert args.slurm_study_requeue is True


def test_a_time_that_is_none_is_told(capsys):
    plugin.ExecutorSettings(poll=1, patience=0)
    with pytest.raises(SystemExit):
        plugin.ExecutorSettings(poll=0)
    assert capsys.readouterr().err.startswith("error: --slurm-study-poll: must be at least 1")


class Queue(plugin.Executor):
    """The executor's queue, on a Slurm that takes `room` jobs at a time."""

    def __init__(self, room: int = 0):
        self.room, self.names, self.tried = room, [], 0
        self.waiting, self.limit = [], None
        self.queue, self.submitting, self.freed = threading.Lock(), threading.Lock(), threading.Event()
        self.ending = threading.Event()
        self.threads = []
        self.submissions = SimpleNamespace(submit=self.submit, shutdown=lambda **options: None)

    def submit(self, function):
        self.threads.append(threading.Thread(target=function, daemon=True))
        self.threads[-1].start()

    def run_job(self, job):
        self.tried += 1
        if len(self.names) == self.room:
            raise plugin.NoRoom("AssocMaxSubmitJobLimit")
        self.names.append(job.name)


def queued(priority: int, *names: str):
    return [SimpleNamespace(name=name, priority=priority) for name in names]


def wait_until(is_so):
    for _ in range(500):
        if is_so():
            return
        time.sleep(0.01)
    raise AssertionError("not within 5 s")


def test_jobs_are_submitted_by_priority_as_slurm_has_room():
    queue = Queue()
    queue._enqueue([*queued(1, "second"), *queued(2, "first")])
    wait_until(lambda: queue.limit == "AssocMaxSubmitJobLimit")
    assert queue.tried == 1, "the next job waits, too"
    queue._enqueue(queued(2, "later"))
    queue._enqueue(queued(9, "evaluate"))
    for done in (2, 4):
        queue.room = done
        queue.freed.set()
        wait_until(lambda done=done: len(queue.waiting) == 4 - done)
    assert queue.names == ["evaluate", "first", "later", "second"]
    assert queue.limit is None
    assert queue.tried <= 4 + 2, "each job once, and once at each time without room"


def test_a_job_is_tried_again_after_a_while_though_none_of_ours_has_ended(monkeypatch):
    monkeypatch.setattr(plugin, "TRY_EVERY", 0.05)
    queue = Queue()
    queue._enqueue(queued(1, "one"))
    wait_until(lambda: queue.limit)
    queue.room = 1
    wait_until(lambda: queue.names == ["one"])


def test_the_end_of_snakemake_ends_the_wait(monkeypatch):
    monkeypatch.setattr(plugin.RemoteExecutor, "cancel", lambda executor: None)
    queue = Queue()
    queue._enqueue(queued(1, "one", "two"))
    wait_until(lambda: queue.limit)
    queue.cancel()
    for thread in queue.threads:
        thread.join(5)
        assert not thread.is_alive()
    assert not queue.names


def test_a_limit_is_told_once_and_its_end_too(caplog):
    queue = Queue()
    queue.logger, queue.at_limit, queue.limit = logging.getLogger("queue"), plugin.Reminder(), "job submit limit"
    queue.inside, queue.waiting = dict.fromkeys("ab"), [None] * 1363
    with caplog.at_level("INFO"):
        queue._tell_limit()
        queue._tell_limit()
        queue.limit, queue.waiting = None, []
        queue._tell_limit()
        queue._tell_limit()
    assert caplog.messages == [
        "warning: Slurm takes no more jobs now (job submit limit): 2 jobs are in, 1,363 to go; they are submitted as "
        "others end; if Slurm has none of your jobs, the job may ask for more than a single job may have",
        "Slurm has taken all jobs that waited",
    ]


def test_a_message_comes_once_and_again_after_a_while(monkeypatch):
    times = iter([0.0, 20.0, 300.0, 301.0, 320.0])
    monkeypatch.setattr(plugin, "time", SimpleNamespace(monotonic=lambda: next(times)))
    reminder = plugin.Reminder()
    assert [reminder.due() for _ in range(5)] == [True, False, True, False, False]


#: Files in a folder of Slurm's logs, and whether they are deleted where the folder is the study's own, and where it is
#: named by `logdir` and others may use it, too.
OLD_LOGS = [
    ("train/mixed-1a2b3c4d_seed0/12.log", True, True),
    ("train/gone-1a2b3c4d_seed0/14.log", True, False),
    ("sft/15.log", True, False),
    ("wandb/debug/wandb.log", False, False),
    ("train/mixed-1a2b3c4d_seed0/new/16.txt", False, False),
]


@pytest.mark.parametrize(("shared", "days"), [(False, 10), (True, 10), (True, 0), (True, 12)])
def test_old_logs_of_the_study_alone_are_deleted_and_no_folder(tmp_path, shared, days):
    for name, *_ in OLD_LOGS:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (time.time() - 11 * 86400,) * 2)
    (tmp_path / "train/mixed-1a2b3c4d_seed0/17.log").touch()
    folders = [path for path in tmp_path.rglob("*") if path.is_dir()]
    settings = {"logdir": tmp_path if shared else None, "delete_logfiles_older_than": days}
    executor = Queue()
    executor.executor_settings = plugin.ExecutorSettings(**settings)
    executor.study = SimpleNamespace(runs=["mixed-1a2b3c4d/seed0"])
    executor.slurm_logdir = tmp_path
    executor._delete_old_logs()
    gone = {name for name, own, named in OLD_LOGS if days == 10 and (named if shared else own)}
    assert {name for name, *_ in OLD_LOGS if not (tmp_path / name).exists()} == gone
    assert (tmp_path / "train/mixed-1a2b3c4d_seed0/17.log").exists()
    assert all(folder.is_dir() for folder in folders)
