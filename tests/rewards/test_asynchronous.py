"""Asynchronous reward functions: called like the others, with the same errors."""

import asyncio
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from reward_ablation.rewards.asynchronous import run
from reward_ablation.rewards.load import load_component
from reward_ablation.system.errors import StudyError
from reward_ablation.system.exit_status import may_pass

FUNCTIONS = """\
import asyncio
import sys

from reward_ablation.rewards.asynchronous import run

STARTED = []


async def _length(text):
    await asyncio.sleep(0.001)
    return float(len(text))


async def together(completions, *, bonus: float = 0.0, **columns):
    STARTED.append(asyncio.get_running_loop())
    assert STARTED[-1] is STARTED[0]
    return [bonus + score for score in await asyncio.gather(*map(_length, completions))]


async def fails(completions, **columns):
    if completions[0] == "late":
        async with asyncio.timeout(0.01):
            await asyncio.sleep(60)
    if completions[0] == "exit":
        sys.exit(3)
    return [float(text.split()[7]) for text in completions]


async def judges(completions, **columns):
    return run(_length(completions[0]))


async def judges_aside(completions, **columns):
    return [await asyncio.to_thread(run, _length(text)) for text in completions]
"""


@pytest.fixture
def component(tmp_path):
    (tmp_path / "own.py").write_text(FUNCTIONS)
    return lambda name, **parameters: load_component(f"own.py:{name}", parameters, tmp_path, "own")


def test_all_calls_share_one_loop_also_where_the_caller_has_its_own(component):
    """A connection that is kept between calls belongs to the loop that it was opened in."""

    function = component("together", bonus=0.5)

    async def trains():
        return function(["a", "", "abc"])

    assert asyncio.run(trains()) == function(["a", "", "abc"]) == [1.5, 0.5, 3.5]


def test_other_threads_can_score(component):
    assert component("judges_aside")(["a", "abc"]) == [1.0, 3.0]
    function = component("together")
    with ThreadPoolExecutor(4) as threads:
        assert [*threads.map(lambda n: function(["a" * n]), range(4))] == [[0.0], [1.0], [2.0], [3.0]]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("fails", "index", r"own\.py, line \d+, `return .*`: IndexError: list index out of range \("),
        ("fails", "late", r"own\.py, line \d+, `.*`: TimeoutError"),
        ("fails", "exit", r"`sys.exit\(3\)`: SystemExit: 3"),
        ("judges", "a", r"inside of an `async def` function; call it as `await asyncio\.to_thread\(judge, "),
    ],
)
def test_errors_are_told_in_one_line_as_those_of_other_functions(component, name, text, message):
    with pytest.raises(StudyError, match=message) as error:
        component(name)([text, "b"])
    assert str(error.value).startswith("components.own: ")
    assert "\n" not in str(error.value)
    assert may_pass(error.value) == (text == "late")
    assert component("together")(["a"]) == [1.0]  # others still run


def test_an_interruption_cancels_the_coroutine_which_runs_its_last_lines():
    ended = threading.Event()

    async def interrupted():
        await asyncio.sleep(0.2)  # until the caller waits
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    signal.signal(signal.SIGINT, signal.default_int_handler)  # processes in the background ignore it
    with pytest.raises(KeyboardInterrupt):
        run(interrupted())
    assert ended.wait(30)
    assert run(asyncio.sleep(0, 1.0)) == 1.0  # the loop serves others
