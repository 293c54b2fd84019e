"""A copy of an object that can be used without a trace in the object."""

from __future__ import annotations

from collections import deque
from typing import Any, TypeVar

from torch import Tensor

Thing = TypeVar("Thing")


def apart(thing: Thing) -> Thing:
    """A copy of an object with attributes of its own.

    Attributes can be set on the copy. Its dicts, lists, sets and deques are copies at every depth, and so are tensors
    that are attributes: they can be changed in place. All other things, such as a model, are those of the object.
    """
    copy = type(thing).__new__(type(thing))
    for name, value in vars(thing).items():
        copy.__dict__[name] = value.detach().clone() if type(value) is Tensor else _container(value)
    return copy


def _container(value: Any) -> Any:
    """A copy of a container, with copies of the containers in it; anything else as it is."""
    if isinstance(value, dict):
        copy = value.copy()  # a defaultdict stays one
        copy.update((key, _container(part)) for key, part in value.items())
        return copy
    if type(value) is list:
        return [_container(part) for part in value]
    return value.copy() if isinstance(value, (set, deque)) else value
