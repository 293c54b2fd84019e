"""Instructions whose following a program can verify."""

from __future__ import annotations

from typing import Any

from reward_ablation.rewards.completions import Completion, completion_texts
from reward_ablation.rewards.instructions.following import share_followed


def instructions(
    completions: list[Completion],
    *,
    column: str = "instructions",
    strict: bool = True,
    partial: bool = False,
    **columns: Any,
) -> list[float | None]:
    """1 where the completion follows all instructions of its problem, else 0; with `partial` the share it follows.

    None where the problem has no instructions, or has an instruction that the workflow does not check. In IFEval that
    is `language:response_language`.

    Parameters
    ----------
    column : str
        Column of the data: for each problem a list of `{"id": ..., "kwargs": {...}}`, as in IFEval.
    strict : bool
        True: judge the text as it is. False: an instruction counts as followed if any of eight variants of the text
        follows it. These are the whole text, the text without its first line, its last line or both, and each of these
        four without stars.
    partial : bool
        Score the share of the instructions that the completion follows.

    Notes
    -----
    Source: Zhou et al. 2023, arXiv 2311.07911: strict and loose accuracy by prompt; with `partial`, by the instructions
    of a prompt.
    """
    texts = completion_texts(completions)
    shares = [share_followed(text, asked, strict) for text, asked in zip(texts, columns[column], strict=True)]
    return [share if share is None or partial else float(share == 1) for share in shares]
