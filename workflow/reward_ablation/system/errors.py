"""Errors that a user can mend, told in one line."""

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
from reward_ablation.system.plain_values import printable

#: First words of an error line, for which `status` looks: `ERROR` where a user can mend the error, else `UNEXPECTED`.
ERROR, UNEXPECTED = "error: ", "failed: "

_ELSEWHERE = "or give the study another folder with the key results"

#: What a file system can refuse, and what to do before the same command is run again.
REMEDIES = {
    errno.ENOSPC: "free space there",
    errno.EDQUOT: "free space there or have the quota raised",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f)",
    errno.EROFS: f"make it writable, {_ELSEWHERE}",
    errno.EACCES: f"see to the permissions of the file and its folder, {_ELSEWHERE}",
    errno.EPERM: f"see to the permissions of the file and its folder, {_ELSEWHERE}",
}

#: Those that programs meet and get over all the time: told only where nothing else went wrong after them.
_COMMON = {errno.EACCES, errno.EPERM}

#: What libraries say instead of a number where a write came out short: torch.save and NumPy.
_SHORT_WRITES = ("iostream error", "unexpected pos", "requested and")


class StudyError(ValueError):
    """What is wrong, where, and what to do, in one line that does nothing to a terminal."""

    def __str__(self) -> str:
        return printable(super().__str__())


class PassingError(StudyError):
    """An error that may pass by itself: the same command, started again, may do better."""


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Print a StudyError as one line to stderr and exit; print a line above the traceback of any other error.

    The exit status is `GOES_ON` for an error that may pass by itself, else 1.
    """
    try:
        with storage_errors():
            yield
    except StudyError as error:
        print(f"{ERROR}{error}", file=sys.stderr)
        sys.exit(GOES_ON if isinstance(error, PassingError) or may_pass(error) else 1)
    except Exception as error:
        told = "".join(traceback.format_exception_only(error))
        print(f"{UNEXPECTED}{printable(' '.join(told.split()))}", file=sys.stderr)
        if not may_pass(error):
            raise
        traceback.print_exc()
        sys.exit(GOES_ON)


@contextmanager
def storage_errors(writing: str | Path | None = None) -> Iterator[None]:
    """Turn an error of the file system into a StudyError, also where a library wraps the error.

    Parameters
    ----------
    writing : str or Path, optional
        What is being written, for errors that name no file: those of a full disk seldom do.
    """
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


def refused_by_storage(error: BaseException) -> tuple[int, str | None] | None:
    """Error number and file (None where unknown) of a file system's refusal behind an error; None for other errors.

    Arrow has the number in an OSError, as Python has; safetensors and tokenizers (Rust) and torch in their text only,
    as far as they have it.
    """
    behind: BaseException | None = error
    while behind is not None:
        number, path = _refusal(behind)
        if number is not None and (behind is error or number not in _COMMON):
            return number, path
        behind = behind.__cause__ or behind.__context__
    return None


def _refusal(error: BaseException) -> tuple[int | None, str | None]:
    if isinstance(error, OSError) and error.errno is not None:
        path = error.filename2 or error.filename  # of a copy or a move, the target
        if path is None and (told_by_arrow := re.search(r"local file '([^']+)'", str(error))):
            path = told_by_arrow[1]
        told = error.errno in REMEDIES and not (error.errno in _COMMON and path is None)
        return (error.errno, str(path) if path else None) if told else (None, None)
    text = str(error)
    for number in REMEDIES:
        if f"(os error {number})" in text or (number not in _COMMON and os.strerror(number) in text):
            return number, None
    if isinstance(error, OSError | RuntimeError) and any(words in text for words in _SHORT_WRITES):
        return errno.ENOSPC, None
    return None, None
