"""Canonical JSON: equal values have equal text, and the digest of the text is a key.

Specs are written in this form, and so are records whose digest is compared later. The key of a run's spec is in the
name of the run's folder, so a change here would change the keys of finished runs.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

#: Hex digits of a key. Names of folders and files contain them, so finished runs depend on their number.
KEY_DIGITS = 8


def canonical(value: Any) -> str:
    """Canonical JSON: sorted keys, no white space, one spelling for equal numbers (1.0 is 1); ValueError for NaN."""
    return dump(normalised(value))


def dump(value: Any) -> str:
    """Canonical JSON of a value that is already `normalised`."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def normalised(value: Any) -> Any:
    """A value with whole floats as integers, keys as strings and tuples as lists."""
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        return int(value)
    if isinstance(value, dict):
        return {str(key): normalised(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [normalised(item) for item in value]
    return value


def key_of(spec: dict[str, Any]) -> str:
    """First 8 hex digits of the SHA-256 of a normalised spec's canonical JSON."""
    return hashlib.sha256(dump(spec).encode()).hexdigest()[:KEY_DIGITS]
