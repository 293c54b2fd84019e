"""The executor: its settings and its queue. The parent plugin's other settings are refused, and all it reads exist."""

import ast
import inspect
import logging
import os
import textwrap
import threading
import time
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import pytest
import snakemake_executor_plugin_slurm as parent
from snakemake.cli import parse_args

import snakemake_executor_plugin_slurm_study as plugin

#: Functions of the parent that nothing calls here: no job is one of an array, and no job starts a Snakemake.
UNUSED = {"run_array_jobs", "_submit_array_jobs", "additional_general_args"}

#: Settings that the parent reads only where another setting says so.
READ_BESIDE = {"status_command", "efficiency_report_path", "efficiency_threshold"}


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


def test_what_the_parents_code_reads_is_there():
    """A setting that a later version of the parent reads must get a value in `ExecutorSettings`."""
    inherited = [
        function
        for name, function in vars(parent.Executor).items()
        if (inspect.isfunction(function) and name not in {*vars(plugin.Executor), *UNUSED}) or name == "__post_init__"
    ]
    read = {name for function in (*inherited, parent._select_logdir) for name in settings_read_by(function)}
    assert {"array_jobs", "array_limit"} <= read, "else this test finds nothing"
    assert {name for name in read if not hasattr(plugin.ExecutorSettings, name)} <= READ_BESIDE


def settings_read_by(function) -> set[str]:
    """Names of the settings that a function reads."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    return {node.attr for node in attributes if ast.unparse(node.value).endswith("executor_settings")}


class Queue(plugin.Executor):
    """The executor's queue, on a Slurm that takes `room` jobs at a time."""

    def __init__(self, room: int = 0):
        self.room, self.names, self.tried = room, [], 0
        self.waiting, self.limit = [], None
        self.queue, self.submitting, self.freed = threading.Lock(), threading.Lock(), threading.Event()
        self.ending = threading.Event()
        self.threads = []
        self._job_submission_executor = SimpleNamespace(submit=self.submit)

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


def test_the_end_of_snakemake_ends_the_wait():
    queue = Queue()
    queue._enqueue(queued(1, "one", "two"))
    wait_until(lambda: queue.limit)
    queue.ending.set()
    queue.freed.set()
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


def with_settings(**settings) -> Queue:
    executor = Queue()
    executor.workflow = SimpleNamespace(executor_settings=plugin.ExecutorSettings(**settings))
    executor.executor_settings = executor.workflow.executor_settings
    executor.logger = logging.getLogger("queue")
    return executor


#: Files in a folder of Slurm's logs, and whether they are deleted where the folder is the study's own, and where it is
#: named by `logdir` and others may use it, too.
OLD_LOGS = [
    ("train/mixed-1a2b3c4d_seed0/12.log", True, True),
    ("train/gone-1a2b3c4d_seed0/14.log", True, False),
    ("sft/15.log", True, False),
    ("wandb/debug/wandb.log", False, False),
    ("train/mixed-1a2b3c4d_seed0/new/16.txt", False, False),
]


@pytest.mark.parametrize(
    ("shared", "changes"),
    [(False, {}), (True, {}), (False, {"checked": False}), (True, {"days": 0}), (True, {"days": 12})],
)
def test_old_logs_of_the_study_alone_are_deleted_and_no_folder(tmp_path, shared, changes):
    for name, *_ in OLD_LOGS:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (time.time() - 11 * 86400,) * 2)
    (tmp_path / "train/mixed-1a2b3c4d_seed0/17.log").touch()
    folders = [path for path in tmp_path.rglob("*") if path.is_dir()]
    settings = {"logdir": tmp_path if shared else None, "delete_logfiles_older_than": changes.get("days", 10)}
    executor = with_settings(**settings)
    executor.study = SimpleNamespace(runs=["mixed-1a2b3c4d/seed0"])
    executor.checked, executor.slurm_logdir = changes.get("checked", True), tmp_path
    executor.clean_old_logs()
    gone = {name for name, own, named in OLD_LOGS if not changes and (named if shared else own)}
    assert {name for name, *_ in OLD_LOGS if not (tmp_path / name).exists()} == gone
    assert (tmp_path / "train/mixed-1a2b3c4d_seed0/17.log").exists()
    assert all(folder.is_dir() for folder in folders)


def test_a_cluster_without_arrays_is_no_obstacle(tmp_path, monkeypatch):
    program = tmp_path / "scontrol"
    program.write_text('#!/bin/sh\necho "MaxArraySize = 1"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(parent, "get_max_array_size", parent.get_max_array_size)
    monkeypatch.setattr(parent.atexit, "register", lambda function: None)
    checked, executor = [], with_settings()
    executor._check = lambda: checked.append(True)
    executor.__post_init__()
    assert checked
