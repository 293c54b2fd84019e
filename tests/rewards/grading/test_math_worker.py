"""The worker process: started when needed, ended when it must be, replaced without a trace."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from reward_ablation.rewards.grading.math_worker import MathWorker

from ..processes import children, is_running, wait_until

ENDLESS = r"\int_0^1\int_0^1\int_0^1 \frac{\sin(xyz)}{x+y+z} dx dy dz"
WORKER = "from reward_ablation.rewards.grading import math_worker as worker\n"


@pytest.fixture(scope="module")
def worker():
    worker = MathWorker()
    yield worker
    worker.close()


def judge(worker, gold, answer):
    return worker.judge([(gold, answer)])[0]


def output_of(script):
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout


def test_an_endless_answer_costs_no_other_and_no_new_worker_and_no_order_counts(worker):
    pairs = [("72", ENDLESS + "+1"), *((f"x+{n}", f"{n}+x") for n in range(1, 5)), ("x", r"\frac{"), ("1", "\ud800")]
    pairs += [("x", "y"), ("1", '"}\n{"gold')]  # the last is no request of its own
    expected = ["timeout", *["correct"] * 4, "unparseable", "unparseable", "wrong", "wrong"]
    judge(worker, "1", "x")
    first = worker.pid
    assert worker.judge(pairs) == expected
    worker._known.clear()
    assert worker.judge(pairs[::-1]) == expected[::-1]
    assert worker.pid == first
    assert children(first) == []
    assert re.search(rf"Max address space +{1 << 30}", Path(f"/proc/{first}/limits").read_text())


def test_a_verdict_is_kept(worker):
    judge(worker, "72", ENDLESS)
    pid = worker.pid
    os.kill(pid, signal.SIGKILL)  # it is not asked again: nobody notices
    wait_until(lambda: not is_running(pid))
    assert judge(worker, "72", ENDLESS) == "timeout"
    assert worker.pid == pid
    assert judge(worker, "x+91", "91+x") == "correct"  # a new question, a new worker
    assert worker.pid != pid


def test_an_answer_whose_child_is_killed_twice_has_no_verdict(worker):
    """Something else kills the process, such as the system when memory is short. This is not the answer's fault."""
    judge(worker, "1", "x")
    verdicts = []
    question = threading.Thread(target=lambda: verdicts.append(judge(worker, "5", ENDLESS)))
    question.start()
    while question.is_alive():
        for child in children(worker.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
    assert verdicts == ["error"]
    assert judge(worker, "5", ENDLESS) == "timeout"  # and it was not kept


def test_a_child_ends_at_its_bounds_and_no_torch_is_imported():
    script = (
        "import sys, time\nfrom reward_ablation.rewards.grading import symbolic\nworker.WALL_SECONDS = 2.0\n"
        "codes = {'|x|': 'bytes(1 << 31)', '|y|': \"__import__('faulthandler')._sigsegv()\", '|z|': '1/0',\n"
        "         '|t|': 'time.sleep(600)'}\n"
        "symbolic.read = lambda text: eval(codes[text])\nworker._WARM_UP.clear()\nworker.limit_process()\n"
        "print(sorted(worker.judged([[text, '|1|'] for text in codes], worker.load_judge())))\n"
        "print([m for m in ('torch', 'transformers', 'snakemake', 'pandas') if m in sys.modules])\n"
    )
    # memory; a stack that overflows; an error, which is no fault of the limits; waiting, which may be the machine's
    statuses = "[(0, 'timeout'), (1, 'timeout'), (2, 'unparseable'), (3, 'late')]"
    assert output_of(WORKER + script) == f"{statuses}\n[]\n"


@pytest.mark.parametrize("count", [1, 50])  # 50 are more than the pipe holds, and cannot be written
def test_a_worker_that_stalls_is_replaced(worker, monkeypatch, count):
    judge(worker, "1", "x")
    stopped, patience, launch = worker.pid, worker.reply_seconds, worker.launch

    def launched():
        worker.reply_seconds = patience
        launch()

    os.kill(stopped, signal.SIGSTOP)
    monkeypatch.setattr(worker, "launch", launched)
    monkeypatch.setattr(worker, "reply_seconds", 0.2)
    pairs = [(f"x+{n}", f"{n}+x" + " " * (1850 + count)) for n in range(count)]
    assert worker.judge(pairs) == ["correct"] * count
    assert not is_running(stopped)


def test_a_worker_that_starts_too_slowly_or_not_at_all_says_so(monkeypatch, tmp_path):
    hasty = MathWorker()
    hasty.start_seconds = 0.01
    with pytest.raises(RuntimeError, match="did not start within"):
        judge(hasty, "x+1", "1+x")
    (tmp_path / "math_verify.py").write_text("raise ImportError('broken installation')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(RuntimeError, match="failed: ImportError: broken installation"):
        judge(MathWorker(), "x+1", "1+x")


def test_a_worker_that_cannot_fork_says_so():
    """If no process can be started, this is the machine's fault and must not look like the answer's."""
    script = (
        "import os, resource\n"
        "def load_judge():\n"
        "    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))\n"
        "    os.getuid() or os.setuid(65534)\n"  # the limit does not hold for root
        "worker.load_judge = load_judge\n"
        "worker.main()\n"
    )
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-c", WORKER + script]
    with ours, theirs, ours.makefile() as replies, subprocess.Popen(command, stdin=theirs):
        ours.sendall(b'[["1", "1"]]\n')
        assert replies.readline() == '{"ready": true}\n'
        assert replies.readline().startswith('{"failed": "BlockingIOError: ')


def test_works_in_an_interpreter_that_blocks_the_signals():
    script = (
        "import signal\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGXCPU})\n"
        "signal.signal(signal.SIGXCPU, signal.SIG_IGN)\n"
        "from reward_ablation.rewards import grade\n"
        f"print(grade(r'\\boxed{{{ENDLESS}}}', '72').status)\n"
    )
    assert output_of(script) == "timeout\n"


@pytest.mark.parametrize("starting", [False, True])
def test_signals_to_all_processes_of_a_job_do_not_end_it(starting):
    """Slurm sends SIGTERM to all of them. A training goes on to the end of its step, and still has answers graded."""
    asked, before, verdicts = MathWorker(), set(children(os.getpid())), []
    if not starting:
        judge(asked, "1", "x")
    question = threading.Thread(target=lambda: verdicts.append(judge(asked, "7", ENDLESS)))
    question.start()
    wait_until(lambda: set(children(os.getpid())) - before if starting else children(asked.pid))
    first, started = asked.pid, set(children(os.getpid())) - before
    for process in started if starting else {first, *children(first)}:
        for number in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(ProcessLookupError):  # ps, which lists them
                os.kill(process, number)
    question.join()
    assert verdicts == ["timeout"]
    assert judge(asked, "x+7", "7+x") == "correct"
    assert starting or asked.pid == first
    asked.close()


def test_ends_with_its_parent_even_if_that_is_killed():
    script = (
        "import os\nworker.math_worker.judge([('x+1', '1+x')])\n"
        "print(worker.math_worker.pid, flush=True)\nos.kill(os.getpid(), 9)\n"
    )
    pid = int(output_of(WORKER + script))
    wait_until(lambda: not is_running(pid))
