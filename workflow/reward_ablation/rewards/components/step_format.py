"""Open-R1's reasoning steps: marks of step-by-step work."""

from __future__ import annotations

import re
from typing import Any

from pydantic import PositiveInt

from reward_ablation.rewards.completions import Completion, completion_texts

_MARK = re.compile(r"Step \d+:|^(?:\d+\.|-|\*)|(?:First|Second|Next|Finally),", re.MULTILINE)


def step_format(completions: list[Completion], *, steps: PositiveInt = 3, **columns: Any) -> list[float | None]:
    """min(1, marks / steps): the number of marks of steps, relative to the number wanted.

    A mark is ``Step 3:``, a line that starts with ``3.``, ``-`` or ``*``, or one of ``First,``, ``Second,``, ``Next,``
    and ``Finally,`` with a capital letter. A line ``- Step 3:`` has two marks.

    Parameters
    ----------
    steps : int
        Number of marks for a full score.

    Notes
    -----
    Source: ``reasoning_steps_reward`` of Open-R1 (huggingface/open-r1), where `steps` is fixed at 3. One mistake is
    mended: the documentation there has numbers and bullets at the start of a line, but the pattern finds a number only
    at the start of the text, and a bullet only after a line break.
    """
    return [min(1.0, sum(1 for _ in _MARK.finditer(text)) / steps) for text in completion_texts(completions)]
