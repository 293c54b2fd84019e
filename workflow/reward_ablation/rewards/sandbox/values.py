"""Values as JSON, between a program and its tests: plain data only, so that no method of the sender decides anything.

An object that is not plain data stays in its process, and the other side gets a number for it. Decoding makes only
objects of the types in this module, whatever the sender has written: no function, no class and no module.
"""

from __future__ import annotations

import datetime
import importlib
import re
import types
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

#: Modules whose functions and classes both sides have.
SHARED_MODULES = frozenset(
    (
        *("bisect", "builtins", "cmath", "collections", "copy", "datetime", "decimal", "fractions", "functools"),
        *("heapq", "itertools", "json", "math", "operator", "random", "re", "statistics", "string", "typing"),
    )
)
_SEQUENCES = {kind.__name__: kind for kind in (list, tuple, set, frozenset, deque)}
_MAPPINGS = {kind.__name__: kind for kind in (dict, OrderedDict, Counter)}
_MAPPINGS["defaultdict"] = dict
_DATES = {kind.__name__: kind for kind in (datetime.date, datetime.datetime, datetime.time)}
_MUTABLE = (list, dict, set, bytearray, deque, OrderedDict, Counter, defaultdict)
_PLAIN_INT_BITS = 1000  # longer integers are sent as hexadecimal digits: reading decimal digits is slow and limited
#: Arrays of booleans, numbers, texts and dates. An array of objects is no plain data.
_ARRAY_TYPE = re.compile(r"[<>|][biufcSUmM]\d+(\[\w+\])?")

#: Gives the JSON of an object that is not plain data.
Refer = Callable[[Any], Any]


def encode(value: Any, refer: Refer) -> Any:
    """JSON of a value; RecursionError if the value contains itself."""
    kind = type(value)
    if value is None or kind in (bool, float, str):
        return value
    if kind is int:
        return value if value.bit_length() <= _PLAIN_INT_BITS else ["int", hex(value)]
    if kind in _SEQUENCES.values() or kind in _VIEWS:
        return [kind.__name__, [encode(item, refer) for item in value]]
    if kind in _MAPPINGS.values() or kind is defaultdict:
        return [kind.__name__, [[encode(key, refer), encode(item, refer)] for key, item in value.items()]]
    if kind in _DATES.values():
        return [kind.__name__, value.isoformat()]
    if kind in _SMALL:
        return [kind.__name__, _SMALL[kind](value)]
    if isinstance(value, int | float | str) and not isinstance(value, type):  # such as a member of IntEnum
        return encode(next(base for base in (bool, int, float, str) if isinstance(value, base))(value), refer)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return ["namedtuple", [kind.__name__, list(value._fields), [encode(item, refer) for item in value]]]
    if _is_array(value) and _ARRAY_TYPE.fullmatch(value.dtype.str):
        return ["ndarray", [value.dtype.str, list(value.shape), value.tobytes().hex()]]
    if kind.__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        return encode(value.item(), refer)
    return refer(value)


_VIEWS: dict[type, Callable[[list], Any]] = {
    type({}.keys()): lambda items: dict.fromkeys(items).keys(),
    type({}.values()): lambda items: dict(enumerate(items)).values(),
    type({}.items()): lambda items: dict(items).items(),
}
_SMALL: dict[type, Callable[[Any], Any]] = {
    bytes: lambda value: value.hex(),
    bytearray: lambda value: value.hex(),
    complex: lambda value: [value.real, value.imag],
    range: lambda value: [value.start, value.stop, value.step],
    Decimal: str,
    Fraction: lambda value: [encode(value.numerator, _refuse), encode(value.denominator, _refuse)],
    datetime.timedelta: lambda value: [value.days, value.seconds, value.microseconds],
    slice: lambda value: [encode(part, _refuse) for part in (value.start, value.stop, value.step)],
}


def decode(written: Any, resolve: Callable[[str, Any], Any]) -> Any:
    """The value of a JSON from `encode`, or of anything else that a hostile sender wrote.

    `resolve` takes the kind and the content of an object that is not plain data, and gives the object. If `written` is
    not a value, an exception of any class is raised.
    """
    if not isinstance(written, list):
        if isinstance(written, dict):
            raise ValueError("no value")
        return written
    kind, content = written
    if kind in _SEQUENCES:
        return _SEQUENCES[kind](decode(item, resolve) for item in content)
    if kind in _MAPPINGS:
        pairs = ((decode(key, resolve), decode(item, resolve)) for key, item in content)
        return Counter(dict(pairs)) if kind == "Counter" else _MAPPINGS[kind](pairs)
    if kind in _DATES:
        return _DATES[kind].fromisoformat(content)
    if kind in _MADE:
        return _MADE[kind](*(decode(part, resolve) for part in content))
    for view, make in _VIEWS.items():
        if kind == view.__name__:
            return make([decode(item, resolve) for item in content])
    if kind == "namedtuple":
        name, fields, items = content
        return namedtuple(name, fields)(*(decode(item, resolve) for item in items))  # checks that they are identifiers
    if kind == "ndarray":
        return _array(*content)
    if kind == "bytes":
        return bytes.fromhex(content)
    if kind == "bytearray":
        return bytearray.fromhex(content)
    if kind == "int":
        return int(content, 16)
    if kind == "Decimal":
        return Decimal(content)
    return resolve(kind, content)


_MADE: dict[str, Callable[..., Any]] = {
    kind.__name__: kind for kind in (complex, range, datetime.timedelta, Fraction, slice)
}


def _array(dtype: str, shape: list[int], data: str) -> Any:
    """An array of numpy, which is imported only here: few programs need it."""
    if not _ARRAY_TYPE.fullmatch(dtype):
        raise ValueError("no array of plain data")
    return importlib.import_module("numpy").frombuffer(bytearray.fromhex(data), dtype).reshape(shape)


def is_mutable(value: Any) -> bool:
    """Whether a value is plain data that a function may change in place."""
    return type(value) in _MUTABLE or _is_array(value)


def assign(target: Any, value: Any) -> None:
    """Give a mutable value the contents of another value of its type; other values stay as they are."""
    if type(target) is not type(value) or not is_mutable(target):
        return
    if isinstance(target, list | bytearray):
        target[:] = value
    elif _is_array(target):
        target[...] = value
    else:
        target.clear()
        target.extend(value) if isinstance(target, deque) else target.update(value)


def _is_array(value: Any) -> bool:
    return type(value).__module__ == "numpy" and type(value).__name__ == "ndarray"


def _refuse(value: Any) -> Any:
    raise TypeError("no plain value")


def shared_name(value: Any) -> list[str] | None:
    """Module and name of a function or class that both sides have; None for any other object."""
    if not isinstance(value, type | types.FunctionType | types.BuiltinFunctionType):
        return None
    module, name = str(getattr(value, "__module__", "")), str(getattr(value, "__name__", ""))
    if module in ("_bisect", "_heapq", "_operator", "_functools", "_collections", "_json", "_random", "_statistics"):
        module = module[1:]
    try:
        return [module, name] if shared(module, name) is value else None
    except (AttributeError, TypeError, ValueError):
        return None


def shared(module: str, name: str) -> Any:
    """This side's function or class of a name."""
    value = getattr(importlib.import_module(module), name) if module in SHARED_MODULES else None
    if name.startswith("_") or not isinstance(value, type | types.FunctionType | types.BuiltinFunctionType):
        raise ValueError("no shared name")
    return value
