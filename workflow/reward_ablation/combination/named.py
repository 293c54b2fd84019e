"""The components that the parameters of a method name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def named_components(parameters: Mapping[str, Any], names: Sequence[str]) -> tuple[str, ...]:
    """Components whose names are a key or a value of the parameters at any depth, in the order of `names`."""
    texts = set(_texts(parameters))
    return tuple(name for name in names if name in texts)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _texts(key)
            yield from _texts(each)
    elif isinstance(value, Sequence):
        for each in value:
            yield from _texts(each)
