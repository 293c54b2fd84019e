"""The end of a message about an unknown arm: the names that the user may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Collection

#: Up to this many arms are all named. Of more arms, the message names those with the most similar names.
MOST_NAMED = 12


def arms_here(wrong: str, arms: Collection[str]) -> str:
    """Names that a user may have meant, for the end of a message about a wrong name.

    >>> arms_here("no_fromat", ["full", "no_format"])
    'arms here: full, no_format'
    """
    if len(arms) <= MOST_NAMED:
        return f"arms here: {', '.join(arms)}"
    near = difflib.get_close_matches(wrong, arms, n=3, cutoff=0.5)
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    return f"{meant}there are {len(arms)} arms, such as {', '.join(list(arms)[:3])}"
