"""What a message says of a name that no arm has."""

from __future__ import annotations

import difflib
from collections.abc import Collection

#: Up to this many arms are all named; of more, only those with the most similar names.
NAMED = 12


def arms_here(wrong: str, arms: Collection[str]) -> str:
    """The names that may be meant, for the end of a message on a wrong one.

    >>> arms_here("no_fromat", ["full", "no_format"])
    'arms here: full, no_format'
    """
    if len(arms) <= NAMED:
        return f"arms here: {', '.join(arms)}"
    near = difflib.get_close_matches(wrong, arms, n=3, cutoff=0.5)
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    return f"{meant}there are {len(arms)} arms, such as {', '.join(list(arms)[:3])}"
