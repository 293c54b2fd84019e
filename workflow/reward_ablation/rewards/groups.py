"""Groups of completions of one problem, and the components that compare the completions of a group.

These components find the rows of each group here. Where several processes share a group, the trainer brings its
completions together for them and for users' functions, and for no other: `training.core.build` reads the names.
"""

from __future__ import annotations

from collections.abc import Sequence

#: Built-in components that compare the completions of a group. Every other one scores each completion by itself, and
#: needs no whole groups (`training.core.whole_groups`).
OF_GROUPS = ("diversity", "majority", "relative_length")


def rows_of_groups(problem_id: Sequence[str]) -> list[list[int]]:
    """Rows of each problem's completions. A batch of training has no problem in two groups."""
    groups: dict[str, list[int]] = {}
    for row, problem in enumerate(problem_id):
        groups.setdefault(problem, []).append(row)
    return list(groups.values())
