"""The component `unit_tests`: finding the program in a completion, and scoring it by its tests."""

import pytest

from reward_ablation.rewards.components.unit_tests import unit_tests

TESTS = ["assert double(2) == 4", "assert double(3) == 6"]
RIGHT, WRONG = "def double(x):\n    return 2 * x\n", "def double(x):\n    return 4\n"


@pytest.mark.parametrize(
    ("completion", "score"),
    [
        (RIGHT, 1.0),
        (WRONG, 0.0),
        (f"<think>{WRONG}</think>{RIGHT}", 1.0),
        (f"First:\n```python\n{WRONG}```\nBetter:\n```python\n{RIGHT}```\nDone.", 1.0),
        (f"```python\n{RIGHT}```\n```python\n{WRONG}```\n", 0.0),
        (f"Sure!\n```\n{RIGHT}", 1.0),
        ("I cannot.", 0.0),
        ("", 0.0),
        ([{"role": "assistant", "content": RIGHT}], 1.0),
    ],
)
def test_score(completion, score):
    assert unit_tests([completion], unit_tests=[TESTS]) == [score]


def test_columns_and_parameters():
    head = 'def double(x):\n    """Twice x."""\n'
    bodies = ["    return 2 * x\n", "    return 4\n", f"```python\n{head}    return x + x\n```"]
    assert unit_tests(bodies, column="checks", prefix_column="head", checks=[TESTS] * 3, head=[head] * 3) == [
        1.0,
        0.0,
        1.0,
    ]
    assert unit_tests([RIGHT, WRONG], partial=True, unit_tests=[TESTS] * 2) == [1.0, 0.5]


def test_no_tests_no_score():
    assert unit_tests([RIGHT, RIGHT, RIGHT], unit_tests=[None, [], TESTS]) == [None, None, 1.0]
    assert unit_tests([RIGHT]) == [None]
    assert unit_tests([], unit_tests=[]) == []
