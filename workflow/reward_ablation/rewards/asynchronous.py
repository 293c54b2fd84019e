"""Asynchronous code, called like other functions: users' reward functions, and the requests of `endpoint`.

`load` wraps a user's function that is `async def`, and `endpoint` runs the requests of the component `judge`. All of it
runs on one event loop, in a thread that lives as long as the process. TRL does the same, because a connection that a
function keeps between its calls belongs to the loop that opened it. The caller's thread may have another loop.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from functools import cache, wraps
from typing import Any, TypeVar

from reward_ablation.system.errors import StudyError

T = TypeVar("T")

#: Name of the loop's thread.
_THREAD = "reward functions"
_lock = threading.Lock()


@cache
def _loop(process: int) -> asyncio.AbstractEventLoop:
    """The event loop of a process, which runs in a thread. A forked process starts a new loop."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name=_THREAD, daemon=True).start()
    return loop


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Result of a coroutine. An interruption of the caller, such as Ctrl-C, cancels the coroutine."""
    if threading.current_thread().name == _THREAD:  # it would wait for itself
        coroutine.close()
        raise StudyError(
            "judge, or another function that waits, is called inside of an `async def` function; call it as "
            "`await asyncio.to_thread(judge, ...)`"
        )
    with _lock:  # so that two threads do not both start a loop
        loop = _loop(os.getpid())
    future = asyncio.run_coroutine_threadsafe(_outcome(coroutine), loop)
    try:
        result, error = future.result()
    except BaseException:
        future.cancel()
        raise
    if error:
        raise error
    return result


async def _outcome(coroutine: Coroutine[Any, Any, T]) -> tuple[T, None] | tuple[Any, BaseException]:
    """Result of a coroutine, or the exception that it ended in."""
    # Raised, a SystemExit would end the loop and leave the caller waiting, and a TimeoutError would lose its traceback.
    try:
        return await coroutine, None
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        return None, error


def called_like_others(function: Callable[..., Coroutine[Any, Any, T]]) -> Callable[..., T]:
    """Wrap an asynchronous function, so that a plain call returns its result."""

    @wraps(function)
    def call(*arguments: Any, **keywords: Any) -> T:
        return run(function(*arguments, **keywords))

    return call
