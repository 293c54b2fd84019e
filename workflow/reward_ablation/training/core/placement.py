"""On which tokens a component's advantage acts: all tokens, the last one, or those that write the answer.

`trainer` asks it for each generation. A completion's total over its tokens is the same under all placements.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from reward_ablation.rewards.grading.extraction import after_thinking, answer_end, extract, marker_spans, thinking_end

#: The placement of one advantage for a whole completion.
ALL_TOKENS = "all_tokens"
#: Answer formats with a marker, in the order in which lenient grading tries them. A bare last number has no marker.
MARKED = ("boxed", "hash", "tag", "final")


def answer_span(text: str) -> tuple[int, int] | None:
    r"""Start and end of an answer with its marker: ``\boxed{72}``, ``#### 72``, ``<answer>72</answer>``, ``Final: 72``.

    The first of these formats with an answer counts, by the rules of `extract`. Boxes that form one answer are one
    span. None where there is no answer, or the answer has no marker.
    """
    rest = after_thinking(text)
    offset = thinking_end(text)
    for answer_format in MARKED:
        answer = extract(rest, answer_format)
        markers = marker_spans(rest, answer_format)
        if answer is not None and markers:
            # A text that starts at a marker yields this answer as long as it includes the marker where the answer
            # starts. A text that starts later does not.
            others = bisect_left(markers, True, key=lambda marker: extract(rest[marker[0] :], answer_format) != answer)
            own = markers[max(others - 1, 0) :]
            # If the last marker's answer lies inside the first marker's, it ends earlier; so take the latest end.
            return offset + own[0][0], offset + max(answer_end(rest, end, answer_format) for _, end in own)
    return None


def answer_tokens(ids: Sequence[int], tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Indices, ascending, of the tokens that write any part of the answer and its marker, or else of the last token.

    Special tokens write nothing. A character that is split over several tokens belongs to all of them. The search takes
    O(log T) decodings of the T > 0 tokens.
    """

    @cache  # the searches below decode the same lengths again
    def decode(n: int) -> str:
        return str(tokenizer.decode(list(ids[:n]), skip_special_tokens=True, clean_up_tokenization_spaces=False))

    text = decode(len(ids))
    span = answer_span(text)
    if span is None:
        return [len(ids) - 1]
    start, end = span
    counts = range(len(ids) + 1)
    # Each search finds the fewest tokens that write the text up to a position. An incomplete character decodes to
    # another character.
    before = bisect_left(counts, True, key=lambda n: decode(n)[:start] == text[:start])
    first = bisect_left(counts, True, lo=before, key=lambda n: len(decode(n)) > start) - 1
    last = bisect_left(counts, True, lo=first, key=lambda n: decode(n)[:end] == text[:end])
    special = set(tokenizer.all_special_ids)
    return [i for i in range(max(first, 0), min(last, len(ids))) if ids[i] not in special] or [len(ids) - 1]


def token_weights(
    placement: str, completion_ids: Sequence[Sequence[int]], width: int, tokenizer: PreTrainedTokenizerBase
) -> Tensor:
    """Factor by which a completion's advantage is multiplied on each of its tokens, (B, width), with padding.

    It is T_i / |S_i| on the tokens S_i of the placement, of the T_i tokens of completion i, and 0 elsewhere: its mean
    over a completion's tokens is 1. `completion_ids` have the end token, if there is one, and no padding.
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
    """Put the advantages (B, K) of K components on tokens, (B, T, K), by the `token_weights` of their placements."""
    parts = [advantages[:, k, None] * weights[placement] for k, placement in enumerate(placements)]
    return torch.stack(parts, dim=2)
