"""Errors as one line for the user: those that a user can fix, and others before their traceback.

All packages raise `StudyError`. The Snakefile and the commands run within `one_line_errors`, which prints it, hides
secrets, and ends with an exit status that says whether to try again (`exit_status`).
"""

from __future__ import annotations

import errno
import os
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reward_ablation.system.exit_status import GOES_ON, may_pass
from reward_ablation.system.masking import without_known_secrets
from reward_ablation.system.plain_values import printable

#: First words of an error line, by which `status` finds it: `ERROR` if a user can fix the error, else `UNEXPECTED`.
ERROR, UNEXPECTED = "error: ", "failed: "

_ELSEWHERE = "or give the study another folder with the key results"

#: Error numbers of file systems, and what to do before the same command is run again.
REMEDIES = {
    errno.ENOSPC: "free space there",
    errno.EDQUOT: "free space there or have the quota raised",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f)",
    errno.EROFS: f"make it writable, {_ELSEWHERE}",
    errno.EACCES: f"see to the permissions of the file and its folder, {_ELSEWHERE}",
    errno.EPERM: f"see to the permissions of the file and its folder, {_ELSEWHERE}",
}

#: Errors that programs often meet and handle. They are reported only if they name a file and no other error followed.
_COMMON = {errno.EACCES, errno.EPERM}

#: Texts by which torch.save and NumPy report an incomplete write, without an error number; they count as a full disk.
_SHORT_WRITES = ("iostream error", "unexpected pos", "requested and")


class StudyError(ValueError):
    """An error for the user: what is wrong, where, and what to do, in one line without control characters."""

    def __str__(self) -> str:
        return printable(super().__str__())


class NotFinite(StudyError):
    """A number of a model or of its training is NaN or infinite; `step` is None for the step that is being made."""

    def __init__(self, what: str, step: int | None = None):
        super().__init__(what)
        self.step = step


class PassingError(StudyError):
    """An error that may pass by itself: the same command, started again, may succeed."""


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Print an error as one line, with a traceback if it is no StudyError. Exit with GOES_ON if it may pass, or 1."""
    try:
        with storage_errors():
            yield
    except StudyError as error:
        print(f"{ERROR}{without_known_secrets(str(error))}", file=sys.stderr)
        sys.exit(GOES_ON if isinstance(error, PassingError) or may_pass(error) else 1)
    except Exception as error:
        message = without_known_secrets("".join(traceback.format_exception_only(error)))
        print(f"{UNEXPECTED}{printable(' '.join(message.split()))}", file=sys.stderr)
        print(without_known_secrets(traceback.format_exc()), end="", file=sys.stderr)
        sys.exit(GOES_ON if may_pass(error) else 1)


@contextmanager
def storage_errors(writing: str | Path | None = None) -> Iterator[None]:
    """Turn a file system's error, also a wrapped one, into a StudyError. If no file is known, it names `writing`."""
    try:
        yield
    except StudyError:
        raise
    except Exception as error:
        refusal = refused_by_storage(error)
        if refusal is None:
            raise
        number, path = refusal
        where = path or writing or "a file"
        raise StudyError(
            f"{where}: {os.strerror(number)}; what is done is kept: {REMEDIES[number]}, then run the same command again"
        ) from error


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or the error's name if there is no message."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def refused_by_storage(error: BaseException) -> tuple[int, str | None] | None:
    """Number and file (None if unknown) of the file system error behind an error; None for other errors."""
    cause: BaseException | None = error
    while cause is not None:
        number, path = _refusal(cause)
        if number is not None and (cause is error or number not in _COMMON):
            return number, path
        cause = cause.__cause__ or cause.__context__
    return None


def _refusal(error: BaseException) -> tuple[int | None, str | None]:
    """Number and file of a file system error, without its causes; None for a number or a file that it does not tell."""
    if isinstance(error, OSError) and error.errno is not None:
        path = error.filename2 or error.filename  # the target of a copy or a move
        if path is None and (named_by_arrow := re.search(r"local file '([^']+)'", str(error))):
            path = named_by_arrow[1]
        is_reported = error.errno in REMEDIES and not (error.errno in _COMMON and path is None)
        return (error.errno, str(path) if path else None) if is_reported else (None, None)
    text = str(error)  # safetensors, tokenizers (Rust) and torch have the number in texts only
    for number in REMEDIES:
        if f"(os error {number})" in text or (number not in _COMMON and os.strerror(number) in text):
            return number, None
    if isinstance(error, OSError | RuntimeError) and any(words in text for words in _SHORT_WRITES):
        return errno.ENOSPC, None
    return None, None
