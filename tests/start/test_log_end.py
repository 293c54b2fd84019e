"""The end of a log, written by a command itself, by Python or by several processes, or missing."""

import os

import pytest

from reward_ablation.start.signs import TAIL, read_log_end
from reward_ablation.system.errors import StudyError, one_line_errors

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
