"""Bounds on the memory and the processor time that a stranger's model or data may take while it is checked or read.

The checks before any job and the commands that fetch models and prepare data work within them. A small file may ask for
more memory than the machine has; the user then gets one line, and not a killed process.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from reward_ablation.system.errors import StudyError

#: A fork may take this many seconds by the clock for each second of processor time. The number is a free choice.
WAITS = 10


@contextmanager
def memory_limit(extra: int, what: str, remedy: str = "") -> Iterator[None]:
    """Refuse more than `extra` bytes beyond those in use; on macOS, which has no such limit, only a MemoryError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    statm = Path("/proc/self/statm")
    if statm.exists():
        in_use = int(statm.read_text().split()[5]) * resource.getpagesize()  # field 5: pages of data and stack
        limits = [limit for limit in (in_use + extra, soft, hard) if limit != resource.RLIM_INFINITY]
        resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))
    try:
        yield
    except Exception as error:
        if not _out_of_memory(error):
            raise
        raise StudyError(f"{what} takes more than {extra / 2**30:g} GiB of memory{remedy}") from None
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _out_of_memory(error: BaseException | None) -> bool:
    """Whether an error, or an error behind it, says that memory was refused."""
    while error is not None and not isinstance(error, MemoryError):
        error = error.__cause__ or error.__context__
    return error is not None


def within_limits(work: Callable[[], None], seconds: int, memory: int, what: str) -> None:
    """Do work in a fork with so many seconds of processor time and bytes of memory; what it prints is lost.

    On macOS, whose libraries do not work in forks, this process does the work without limits.
    """
    if sys.platform != "linux":
        return work()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _work_in_fork(work, seconds, memory, what, writer)
    os.close(writer)
    with open(reader, "rb") as pipe:
        # A fork that waits for something takes no processor time, so the clock ends it.
        if not select.select([pipe], [], [], WAITS * seconds)[0]:
            os.kill(child, signal.SIGKILL)
        text = pipe.read().decode(errors="replace")
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status in (-signal.SIGXCPU, -signal.SIGKILL):
        raise StudyError(f"{what} takes more than {seconds} seconds, or more memory than there is")
    if status < 0:
        raise StudyError(f"{what} crashes: {signal.strsignal(-status)}")
    if text:
        raise StudyError(text)


def _work_in_fork(work: Callable[[], None], seconds: int, memory: int, what: str, writer: int) -> None:
    """Do the work, write the message of its error to a pipe, and end this process."""
    message = ""
    try:
        null = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(null, stream)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))  # SIGXCPU, and SIGKILL where it is ignored
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with memory_limit(memory, what):
            work()
    except StudyError as error:
        message = str(error)
    except BaseException as error:  # a panic of a Rust library is no Exception
        message = f"{what} fails: {type(error).__name__}: {error}"
    finally:
        os.write(writer, message.encode(errors="replace")[:4000])  # less than a pipe holds, so this does not wait
        os._exit(0)
