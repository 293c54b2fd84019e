"""The worker process: started when needed, ended when it must be, replaced without a trace."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from reward_ablation.rewards.supervisor import MathWorker


@pytest.fixture(scope="module")
def worker():
    worker = MathWorker()
    yield worker
    worker.close()


def test_starts_with_the_first_question(worker):
    assert worker.pid is None
    assert worker.judge("x+1", "1+x") == "correct"
    assert worker.pid is not None


@pytest.mark.parametrize(
    ("gold", "answer", "status"),
    [
        (r"\sin^2(x)", r"1-\cos^2(x)", "correct"),
        ("x", "y", "wrong"),
        ("1", r"\frac{", "unparseable"),
        ("1", '"}\n{"gold', "unparseable"),  # no request of its own
        ("1", "\ud800", "unparseable"),  # broken UTF-8
    ],
)
def test_judge(worker, gold, answer, status):
    assert worker.judge(gold, answer) == status


def test_an_endless_answer_is_a_timeout_and_the_next_one_has_a_new_worker(worker):
    worker.judge("1", "x")
    first = worker.pid
    assert worker.judge("72", "(9^{9^{9}})!") == "timeout"
    assert worker.judge("x+1", "1+x") == "correct"
    assert worker.pid != first


def test_a_killed_worker_is_replaced(worker):
    worker.judge("1", "x")
    first = worker.pid
    os.kill(first, signal.SIGKILL)
    assert worker.judge("x+1", "1+x") == "correct"
    assert worker.pid != first


def test_a_stalled_worker_is_a_timeout(worker, monkeypatch):
    """Stopped, it uses no CPU time: only the deadline of the parent ends it."""
    monkeypatch.setattr("reward_ablation.rewards.supervisor.WALL_SECONDS", 0.2)
    worker.judge("1", "x")
    stopped = worker.pid
    os.kill(stopped, signal.SIGSTOP)
    assert worker.judge("x+1", "1+x") == "timeout"
    assert worker.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(stopped, 0)


def test_works_in_threads(worker):
    """Each thread has its own answers, although they share the worker."""
    results = {}

    def ask(number):
        results[number] = [worker.judge(f"x+{number}", f"{n}+x") for n in range(4)]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {k: ["correct" if n == k else "wrong" for n in range(4)] for k in range(4)}


def test_memory_is_bounded(worker):
    worker.judge("1", "x")
    limits = open(f"/proc/{worker.pid}/limits").read()  # noqa: SIM115
    assert f"{1 << 30}" in next(line for line in limits.splitlines() if line.startswith("Max address space"))
    assert "600" in next(line for line in limits.splitlines() if line.startswith("Max cpu time"))


def test_imports_neither_torch_nor_this_package():
    script = (
        "import runpy, sys\n"
        "from reward_ablation.rewards import worker\n"
        "before = set(sys.modules)\n"
        "runpy.run_path(worker.__file__)['load_judge']()\n"
        "print([m for m in set(sys.modules) - before if m.split('.')[0] in ('torch', 'reward_ablation')])\n"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout == "[]\n"


def test_a_forked_child_starts_its_own_worker(worker):
    worker.judge("1", "x")
    script_status = os.fork()
    if script_status == 0:
        fine = worker.pid is None and worker.judge("x+1", "1+x") == "correct"
        worker.close()
        os._exit(0 if fine else 1)
    assert os.waitpid(script_status, 0)[1] == 0
    assert worker.judge("x+2", "2+x") == "correct"


def test_ends_with_its_parent_even_if_that_is_killed():
    script = (
        "import os, sys\n"
        "from reward_ablation.rewards.supervisor import math_worker\n"
        "math_worker.judge('x+1', '1+x')\n"
        "print(math_worker.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    pid = int(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout)
    deadline = time.monotonic() + 30
    while os.path.exists(f"/proc/{pid}") and "Z" not in open(f"/proc/{pid}/stat").read().split()[2]:  # noqa: SIM115
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_worker_that_cannot_start_says_why(monkeypatch, tmp_path):
    broken = tmp_path / "math_verify"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise ImportError('broken installation')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(RuntimeError, match="did not start: ImportError: broken installation"):
        MathWorker().judge("x+1", "1+x")
