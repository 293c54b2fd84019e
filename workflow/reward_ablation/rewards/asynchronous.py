"""Asynchronous code, called like other functions: users' reward functions, and the requests of `endpoint`.

All of it runs on one event loop, in a thread that lives as long as the process. TRL does the same, because a
connection that a function keeps between its calls belongs to the loop that opened it. The caller's thread may have
another loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, TypeVar

T = TypeVar("T")


class _Loop:
    """The event loop of this process, and its thread."""

    lock = threading.Lock()
    loop: asyncio.AbstractEventLoop | None = None
    thread: threading.Thread | None = None


def _running_loop() -> asyncio.AbstractEventLoop:
    """The loop of this process. A forked process starts a new loop."""
    with _Loop.lock:
        if _Loop.loop is None or _Loop.thread is None or not _Loop.thread.is_alive():
            loop = asyncio.new_event_loop()
            _Loop.loop = loop
            _Loop.thread = threading.Thread(target=loop.run_forever, name="reward functions", daemon=True)
            _Loop.thread.start()
        return _Loop.loop


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Result of a coroutine. An interruption of the caller, such as Ctrl-C, cancels the coroutine."""
    future = asyncio.run_coroutine_threadsafe(_outcome(coroutine), _running_loop())
    try:
        result, error = future.result()
    except BaseException:
        future.cancel()
        raise
    if error:
        raise error
    return result


async def _outcome(coroutine: Coroutine[Any, Any, T]) -> tuple[T, None] | tuple[Any, BaseException]:
    """Result of a coroutine, or the exception that it ended in.

    The exception is returned and not raised: a raised SystemExit would end the loop and leave the caller waiting, and a
    raised TimeoutError would lose its traceback.
    """
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
