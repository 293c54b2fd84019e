"""The component `unit_tests`: finding the program in a completion, and scoring it by its tests."""

import pytest

from reward_ablation.rewards.components.unit_tests import extract_code, unit_tests

TESTS = ["assert double(2) == 4", "assert double(3) == 6"]
RIGHT, WRONG = "def double(x):\n    return 2 * x\n", "def double(x):\n    return 4\n"


@pytest.mark.parametrize(
    ("completion", "score"),
    [
        (RIGHT, 1.0),
        (f"<think>{WRONG}</think>{RIGHT}", 1.0),
        (f"First:\n```python\n{WRONG}```\nBetter:\n```python\n{RIGHT}```\nDone.", 1.0),
        ("1. It is:\n\n    ```python\n    def double(x):\n        return 2 * x\n    ```", 1.0),
        ("I cannot.", 0.0),
        ([{"role": "assistant", "content": RIGHT}], 1.0),
    ],
)
def test_score(completion, score):
    assert unit_tests([completion], unit_tests=[TESTS]) == [score]


def test_columns_and_parameters():
    head = 'def double(x):\n    """Twice x."""\n'
    bodies = ["    return 2 * x\n", "    return 4\n", f"```python\n{head}    return x + x\n```"]
    scores = unit_tests(bodies, column="checks", prefix_column="head", checks=[TESTS] * 3, head=[head] * 3)
    assert scores == [1.0, 0.0, 1.0]
    assert unit_tests([RIGHT, WRONG], partial=True, unit_tests=[TESTS] * 2) == [1.0, 0.5]


@pytest.mark.parametrize("head", ["def double(x):\n", "def double(x):\n    '''Twice x.'''"])
def test_a_space_that_decoding_lost_is_put_back(head):
    """Tokenizers of Llama 2's kind lose the first space of a text."""
    bodies = ["   y = 2 * x\n    return y\n", "  y = 2 * x\n    return y\n", "y = 2 * x\n    return y\n"]
    assert unit_tests(bodies, unit_tests=[TESTS] * 3, prefix_column="head", head=[head] * 3) == [1.0, 0.0, 0.0]
    assert unit_tests(["  x = 1\n" + RIGHT], unit_tests=[TESTS]) == [0.0]


def test_no_tests_no_score():
    assert unit_tests([RIGHT, RIGHT, RIGHT], unit_tests=[None, [], TESTS]) == [None, None, 1.0]
    assert unit_tests([RIGHT], unit_tests=[["def test_double():\n    assert double(2) == 4"]]) == [None]
    assert unit_tests([RIGHT]) == [None]
    assert unit_tests([], unit_tests=[]) == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("\n    return 1\n", "    return 1\n"),  # the rest of a function keeps its indentation
        ("```python\nx = 1\n```", "x = 1\n"),
        ("```python\na\n```\n```python\nb\n```", "b\n"),  # the last one counts
        ("```python\na\n```\nIt prints:\n```\n1\n```", "a\n"),  # what is marked as Python comes before what is not
        ("```bash\npip install x\n```", "```bash\npip install x\n```"),  # no block: the text, which is no Python
        ("```python\nx = 1", "x = 1"),  # cut off, or at a stop sequence
        ("<think>```python\na\n```</think>```python\nb\n```", "b\n"),
        ("<think>\n```python\na\n```", ""),  # never got to an answer
        ("1. Do:\n   ```python\n   if x:\n       y()\n   ```", "if x:\n    y()\n"),  # without the block's indentation
        ("- Do:\n\n      ```python\n      if x:\n\n          y()\n      ```\n", "if x:\n\n    y()\n"),
        ("  ```python\nif x:\n  y()\n  ```", "if x:\n  y()\n"),  # the code is not indented
        ("````python\ns = 1\n```\nt\n```\n````\nmore", "s = 1\n```\nt\n```\n"),
        (
            "```python\ndef f():\n    '''\n    ```\n    f()\n    ```\n    '''\n```",
            "def f():\n    '''\n    ```\n    f()\n    ```\n    '''\n",
        ),
        ("```python\ns = '```'\n```", "s = '```'\n"),  # not at the start of a line
    ],
)
def test_extract_code(text, code):
    assert extract_code(text) == code


@pytest.mark.parametrize("unit", ["```\n", "```python\n", "`", "\n", "<think>", "~", "- ", "1. ```\n"])
def test_time_is_linear(unit):
    """With a square of the length, the test would not end."""
    extract_code(unit * (1_000_000 // len(unit)))
