"""Finding the program in a completion."""

import pytest

from reward_ablation.rewards.sandbox.code_blocks import extract_code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("x = 1", "x = 1"),
        ("\n    return 1\n", "    return 1\n"),  # the rest of a function keeps its indentation
        ("```python\nx = 1\n```", "x = 1\n"),
        ("Text\n```py\nx = 1\n```\nmore", "x = 1\n"),
        ("```Python\nx = 1\n```", "x = 1\n"),
        ("``` python title='a'\nx = 1\n```", "x = 1\n"),
        ("```\nx = 1\n```", "x = 1\n"),
        ("```python\na\n```\n```python\nb\n```", "b\n"),  # the last one counts
        ("```python\na\n```\nIt prints:\n```\n1\n```", "a\n"),  # what is marked as Python comes before what is not
        ("```\na\n```\n```bash\npip install x\n```", "a\n"),
        ("```bash\npip install x\n```", "```bash\npip install x\n```"),  # no block: the text, which is no Python
        ("```python\nx = 1", "x = 1"),  # cut off, or at a stop sequence
        ("```python\na\n```\n```python\nb", "b"),
        ("```python", ""),
        ("```python\n```", ""),
        ("<think>```python\na\n```</think>```python\nb\n```", "b\n"),
        ("<think>\n```python\na\n```", ""),  # never got to an answer
        ("1. Do:\n   ```python\n   x = 1\n   ```", "   x = 1\n"),
        ("```python\ns = '```'\n```", "s = '```'\n"),  # not at the start of a line
        ("```python\r\nx = 1\r\n```", "x = 1\r\n"),
        ("", ""),
    ],
)
def test_extract_code(text, code):
    assert extract_code(text) == code


@pytest.mark.parametrize("unit", ["```", "```\n", "```python\n", "`", "\n", " ", "``` ", "<think>", "```a"])
def test_time_is_linear(unit):
    """With a square of the length, the test would not end."""
    extract_code(unit * (1_000_000 // len(unit)))
