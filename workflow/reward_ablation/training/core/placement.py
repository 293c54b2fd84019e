"""On which tokens a component's advantage acts: all of them, the last one, or those of the answer.

Placement of an advantage, not reward-to-go: what a completion earns in all is the same wherever it is placed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import cache
from typing import cast

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from reward_ablation.rewards.grading.extraction import after_thinking, answer_end, extract, marker_spans, thinking_end

#: The placement that training knows without this module: one advantage for a whole completion.
ALL_TOKENS = "all_tokens"
#: The formats that mark an answer, as lenient grading looks for them; a bare last number has no marker.
MARKED = ("boxed", "hash", "tag", "final")


def answer_span(text: str) -> tuple[int, int] | None:
    r"""Where the answer stands with its marker: ``\boxed{72}``, ``#### 72``, ``<answer>72</answer>``, ``Final: 72``.

    Parameters
    ----------
    text : str
        Any text.

    Returns
    -------
    (start, end) or None
        Of the first of boxed, hash, tag and final that has an answer, by the rules of `extract`; boxes
        that make one answer together are one span. None without an answer, or without a marker.
    """
    rest = after_thinking(text)
    offset = thinking_end(text)
    for answer_format in MARKED:
        answer = extract(rest, answer_format)
        markers = marker_spans(rest, answer_format)
        if answer is not None and markers:
            # The text from a marker on has the same answer up to the marker where this answer starts, and no further.
            others = bisect_left(markers, True, key=lambda marker: extract(rest[marker[0] :], answer_format) != answer)
            own = markers[max(others - 1, 0) :]
            # The last marker's answer ends before the first one's where it stands inside it.
            return offset + own[0][0], offset + max(answer_end(rest, end, answer_format) for _, end in own)
    return None


def answer_tokens(ids: Sequence[int], tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Indices of the tokens that write any part of the answer and its marker; the last token where there is none.

    Parameters
    ----------
    ids : sequence of int
        A completion, at least one token.
    tokenizer
        Special tokens write nothing. A character that is split over tokens belongs to all of them.

    Returns
    -------
    list of int
        Ascending; never empty. Found in O(log T) decodings.
    """

    @cache  # the searches below pass through the same lengths
    def decode(n: int) -> str:
        text = tokenizer.decode(list(ids[:n]), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return cast(str, text)

    text = decode(len(ids))
    span = answer_span(text)
    if span is None:
        return [len(ids) - 1]
    start, end = span
    counts = range(len(ids) + 1)
    # The fewest tokens that write all up to a place. A character that is not complete yet decodes to another one.
    before = bisect_left(counts, True, key=lambda n: decode(n)[:start] == text[:start])
    first = bisect_left(counts, True, lo=before, key=lambda n: len(decode(n)) > start) - 1
    last = bisect_left(counts, True, lo=first, key=lambda n: decode(n)[:end] == text[:end])
    special = set(tokenizer.all_special_ids)
    return [i for i in range(max(first, 0), min(last, len(ids))) if ids[i] not in special] or [len(ids) - 1]


def token_weights(
    placement: str, completion_ids: Sequence[Sequence[int]], width: int, tokenizer: PreTrainedTokenizerBase
) -> Tensor:
    """What a completion's advantage is multiplied by on each of its tokens.

    Parameters
    ----------
    placement : {"all_tokens", "last_token", "answer_span"}
    completion_ids : sequence of B sequences of int
        Completions without padding, of T_i tokens, with the end token where there is one.
    width : int
        T, the length of the padded completions.

    Returns
    -------
    (B, T) tensor
        T_i / |S_i| on the tokens S_i of the placement and 0 elsewhere: the mean over a completion's tokens
        is 1 in every placement. 0 on the padding, which follows.
    """
    weights = torch.zeros(len(completion_ids), width)
    for row, ids in zip(weights, completion_ids, strict=True):
        if placement == ALL_TOKENS:
            row[: len(ids)] = 1.0
            continue
        tokens = answer_tokens(ids, tokenizer) if placement == "answer_span" else [len(ids) - 1]
        row[tokens] = len(ids) / len(tokens)
    return weights


def place(advantages: Tensor, placements: Sequence[str], weights: dict[str, Tensor]) -> Tensor:
    """Advantages per completion and component, put on tokens.

    Parameters
    ----------
    advantages : (B, K) tensor
    placements : sequence of K str
    weights : dict of str to (B, T) tensor
        `token_weights` of each placement.

    Returns
    -------
    (B, T, K) tensor
        Its mean over a completion's tokens is the advantage that came in.
    """
    parts = [advantages[:, k, None] * weights[placement] for k, placement in enumerate(placements)]
    return torch.stack(parts, dim=2)
