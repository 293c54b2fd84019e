"""A control: a score that says nothing about the completion.

The default study and most presets have an arm that trains on it alone, named by the key `control`.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from reward_ablation.rewards.completions import Completion, completion_texts


def random(
    completions: list[Completion], problem_id: list[str], *, seed: int = 0, **columns: Any
) -> list[float | None]:
    """Uniform score in [0, 1) that depends on the seed, the problem and the text, and on nothing else.

    The same text for the same problem has the same score in every run, process and order, and the trainer's random
    generators stay as they are. An arm with this component shows the effect of noise alone.

    Notes
    -----
    Source: spurious rewards as a control are from Shao et al. 2025, arXiv 2506.10947. Their scores are 0 or 1, from a
    coin that is tossed anew each time. Here the score is the first 53 bits of a BLAKE2b digest, as a fraction.
    """
    return [
        _uniform(seed, problem, text) for problem, text in zip(problem_id, completion_texts(completions), strict=True)
    ]


def _uniform(seed: int, problem: str, text: str) -> float:
    digest = hashlib.blake2b(json.dumps([seed, problem, text]).encode(), digest_size=8).digest()
    return (int.from_bytes(digest) >> 11) / 2**53  # 53 bits: all that a float holds, so never rounded up to 1
