"""The end of a log: written by training itself, by Python, by the launcher of several processes, or by nobody."""

from types import SimpleNamespace

import pytest

from reward_ablation.start.run_log import TAIL, read_run_log

STEP = "step 3/40: reward 1.320 (correctness 0.250), 20 tokens, 11 s left\n"
STOPPED = "train: stopped at step 3 of 40: SIGTERM; the same command goes on from there\n"
TRACEBACK = 'Traceback (most recent call last):\n  File "run.py", line 3, in train\n    step()\n    ~~~~^^\n'
#: What torchrun says after any end of its processes that is not 0.
LAUNCHER = (
    "W1120 19:37:20.470000 6644 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 6692 closing "
    "signal SIGTERM\n"
    + TRACEBACK
    + "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    + "============================================================\n"
    + "reward_ablation.training FAILED\n"
    + "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html\n"
    + "============================================================\n"
)


def of_rank(rank: int, text: str) -> str:
    return "".join(f"[rank{rank}]: {line}\n" for line in text.splitlines())


def test_what_training_prints_is_read(capsys, tmp_path):
    from reward_ablation.training.around.interruption import Stopped
    from reward_ablation.training.around.progress import ProgressCallback

    path = tmp_path / "seed0.log"
    state = SimpleNamespace(max_steps=40, global_step=20, is_world_process_zero=True)
    callback = ProgressCallback(["correctness"])
    callback.on_train_begin(None, state, None)
    path.write_text(capsys.readouterr().out)
    log = read_run_log(path)
    assert (log.step, log.steps, log.reward, log.ended) == (20, 40, None, False)
    state.global_step = 21
    callback.on_log(None, state, None, {"loss": 0.1, "reward": -0.25, "rewards/correctness/mean": 0.5})
    state.global_step = 22
    callback.on_log(None, state, None, {"loss": 0.1})  # a step on the same rollouts
    path.write_text(path.read_text() + capsys.readouterr().out)
    log = read_run_log(path)
    assert (log.step, log.steps, log.reward, log.seconds_left) == (22, 40, -0.25, 0)
    path.write_text(f"{path.read_text()}train: {Stopped('time limit', 22, 40)}\n")
    assert read_run_log(path).stopped == "time limit"


@pytest.mark.parametrize(
    ("text", "stopped", "error", "last"),
    [
        ("", None, None, ""),
        ("Loading weights:   0%|  | 0/26\rLoading weights: 100%|##| 26/26\r\n", None, None, "26"),
        (STEP, None, None, "11 s left"),
        (STEP + "\n  \n", None, None, "11 s left"),
        (STEP + STOPPED, "SIGTERM", None, "from there"),
        (STEP + STOPPED + LAUNCHER, "SIGTERM", None, "errors.html"),
        (STOPPED.replace("SIGTERM", "a GPU ran out of memory; the next attempt takes micro batches of 4"),
         "a GPU ran out of memory; the next attempt takes micro batches of 4", None, "from there"),
        (STEP + "error: disk: full; free space\n", None, "error: disk: full; free space", "free space"),
        (STEP + "error: disk: full\n" + LAUNCHER, None, "error: disk: full", "errors.html"),
        (STEP + STOPPED + "error: disk: full\n", None, "error: disk: full", "full"),
        # of the attempt before: what was told before a step has not ended it
        ("error: no disk\n" + STEP, None, None, "11 s left"),
        (TRACEBACK + "torch.OutOfMemoryError: CUDA out of memory.\n", None, "torch.OutOfMemoryError: CUDA", "memory."),
        (TRACEBACK + "ValueError: two\nlines\n", None, "ValueError: two", "lines"),
        (TRACEBACK + "KeyError: 1\n\nDuring handling of the above exception, another exception occurred:\n\n"
         + TRACEBACK + "RuntimeError\n", None, "RuntimeError", "RuntimeError"),
        # the first process that ends takes the others along
        (of_rank(1, TRACEBACK + "ValueError: real") + of_rank(0, TRACEBACK + "RuntimeError: Connection closed by peer")
         + LAUNCHER, None, "ValueError: real", "errors.html"),
        (STEP + LAUNCHER.replace("To enable", "Signal 9 (SIGKILL) received by PID 7 To enable"), None,
         "Signal 9 (SIGKILL) received by PID 7", "errors.html"),
        (STEP + LAUNCHER, None, "torch.distributed.elastic.multiprocessing.errors.ChildFailedError", "errors.html"),
        # what a model writes into a log moves no cursor
        ("\x1b[2J\x07over\n", None, None, "[2J over"),
        # NaN is a reward that training prints
        ("step 3/40: reward nan (correctness nan), nan tokens, 11 s left\n", None, None, "11 s left"),
        ("\udcff".join(["x", "y"]), None, None, "y"),
    ],
)  # fmt: skip
def test_how_a_log_ends(tmp_path, text, stopped, error, last):
    path = tmp_path / "seed0.log"
    path.write_bytes(text.encode(errors="surrogateescape"))
    log = read_run_log(path)
    assert log.stopped == stopped
    assert (log.error or "").startswith(error or "")
    assert (log.error is None) == (error is None)
    assert log.last.endswith(last)


def test_of_a_long_log_the_end_is_read(tmp_path):
    path = tmp_path / "seed0.log"
    path.write_text("error: long ago\n" + "x" * (3 * TAIL) + "\n" + STEP)
    log = read_run_log(path)
    assert (log.step, log.error) == (3, None)


def test_where_there_is_no_log(tmp_path):
    assert read_run_log(tmp_path / "none.log") is None
    assert read_run_log(tmp_path) is None
    (tmp_path / "file").touch()
    assert read_run_log(tmp_path / "file" / "none.log") is None
