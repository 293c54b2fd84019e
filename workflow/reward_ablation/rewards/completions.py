"""Completions in either of the two forms that TRL passes, and their groups: the completions of one problem."""

from __future__ import annotations

from collections.abc import Sequence

Message = dict[str, str]
Completion = str | list[Message]

#: Built-in components that compare the completions of a group. Every other one scores each completion by itself, and
#: needs no whole groups (`training.core.whole_groups`).
OF_GROUPS = ("diversity", "majority", "relative_length")


def completion_texts(completions: Sequence[Completion]) -> list[str]:
    """Text of each completion: a string as it is, the messages of a conversation joined by newlines."""
    return [
        completion if isinstance(completion, str) else "\n".join(message["content"] for message in completion)
        for completion in completions
    ]


def rows_of_groups(problem_id: Sequence[str]) -> list[list[int]]:
    """Rows of each problem's completions. A batch of training has no problem in two groups."""
    groups: dict[str, list[int]] = {}
    for row, problem in enumerate(problem_id):
        groups.setdefault(problem, []).append(row)
    return list(groups.values())
