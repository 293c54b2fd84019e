"""Digests of the code that makes the demo's content: part of the keys of studies that use it."""

from __future__ import annotations

_DIGESTS = {"word_problems": "9d2d97bb2b5636e6", "demo_model": "d3347e9dd5fdba23"}


def stable_digest(name: str) -> str:
    """Digest of the code of `word_problems` or of `demo_model`, as keys have it."""
    return _DIGESTS[name]
