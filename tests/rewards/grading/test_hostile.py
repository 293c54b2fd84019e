"""A fuzz run: generated hostile completions get an allowed status, in every way of grading."""

import asyncio
import gc
import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reward_ablation.rewards import grade, grade_batch
from reward_ablation.rewards.grading import grader
from reward_ablation.rewards.grading.supervisor import MathWorker

from .hostile import hostile_case, hostile_cases
from .hostile_text import CANARY

CASES = list(hostile_cases(1000, seed=2))
FEW = CASES[:60]


def statuses(cases):
    """Statuses of cases in their order, graded in batches by format."""
    found = {}
    for answer_format in sorted({case.answer_format for case in cases}):
        chosen = [case for case in cases if case.answer_format == answer_format]
        texts, golds = [case.completion for case in chosen], [case.gold for case in chosen]
        found |= dict(zip(chosen, grade_batch(texts, golds, answer_format), strict=True))
    return [found[case].status for case in cases]


def status(case):
    return grade(case.completion, case.gold, case.answer_format).status


@pytest.fixture
def own_worker(monkeypatch):
    """A worker that remembers no verdict."""
    worker = MathWorker()
    monkeypatch.setattr(grader, "math_worker", worker)
    yield worker
    worker.close()


@pytest.fixture(scope="module")
def expected():
    return statuses(FEW)


def test_a_case_depends_on_its_number_alone():
    assert [hostile_case(2, number) for number in (999, 3)] == [CASES[999], CASES[3]]
    assert len({case.completion for case in CASES}) > 0.85 * len(CASES)
    assert len({case.family for case in CASES}) == 22


@pytest.mark.parametrize(
    "cases", [CASES[:200], pytest.param(CASES, marks=[pytest.mark.slow, pytest.mark.long])], ids=len
)
def test_every_status_is_allowed_and_no_code_runs(tmp_path, monkeypatch, cases):
    monkeypatch.chdir(tmp_path)
    graded = zip(cases, statuses(cases), strict=True)
    assert [(case.family, case.completion[:200], case.gold, s) for case, s in graded if s not in case.allowed] == []
    assert not any((folder / CANARY).exists() for folder in (tmp_path, Path.home(), Path(grader.__file__).parent))


def test_any_order_agrees(own_worker, expected):
    assert statuses(FEW) == expected
    shuffled = random.Random(0).sample(FEW, len(FEW))
    own_worker._known.clear()
    assert dict(zip(shuffled, statuses(shuffled), strict=True)) == dict(zip(FEW, expected, strict=True))


def test_one_by_one_in_threads_as_in_a_batch(own_worker, expected):
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(status, FEW)) == expected
    assert threading.active_count() < 8


def test_under_asyncio_as_in_a_batch(own_worker, expected):
    """In threads of the loop and, as a careless caller would, in the loop itself."""

    async def grade_all():
        beside = await asyncio.gather(*(asyncio.to_thread(status, case) for case in FEW[::2]))
        return beside, [status(case) for case in FEW[1::2]]

    assert asyncio.run(grade_all()) == (expected[::2], expected[1::2])


def test_in_a_forked_child_as_in_its_parent(own_worker, expected):
    assert status(FEW[0]) == expected[0]
    child = os.fork()
    if child == 0:
        same = False
        try:
            own_worker._known.clear()
            same = statuses(FEW[:30]) == expected[:30]
            own_worker.close()
        finally:
            os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert [status(case) for case in FEW[:30]] == expected[:30]


def test_memory_of_the_caller_stays_flat():
    def resident_megabytes():
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    cheap = [case for case in CASES if case.family in ("megabytes", "right_in_disguise", "no_answer", "unbalanced")]
    statuses(cheap)
    before = resident_megabytes()
    for _ in range(5):
        for case in cheap:
            status(case)
    assert resident_megabytes() - before < 20
