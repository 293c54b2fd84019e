"""Values as JSON, between a program and its tests: plain data only, so that no method of the sender decides anything.

An object that is not plain data stays in its process, and the other side gets a number for it. Decoding makes only
objects of the types in this module, whatever the sender has written.
"""

from __future__ import annotations

import datetime
import importlib
import sys
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

#: Modules whose functions and classes are sent by name. The receiver takes its own function or class of this name.
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

#: Gives the JSON of an object that is not plain data.
Refer = Callable[[Any], Any]


def encode(value: Any, refer: Refer) -> Any:
    """JSON of a value; RecursionError if the value contains itself."""
    kind = type(value)
    if value is None or kind in (bool, float, str):
        return value
    if kind is int:
        return value if value.bit_length() <= _PLAIN_INT_BITS else ["int", hex(value)]
    if kind in _SEQUENCES.values():
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
        return encode(tuple(value), refer)
    if kind.__module__ == "numpy" and hasattr(value, "tolist"):
        return encode(value.tolist(), refer)
    return _shared_name(value) or refer(value)


_SMALL: dict[type, Callable[[Any], Any]] = {
    bytes: lambda value: value.hex(),
    bytearray: lambda value: value.hex(),
    complex: lambda value: [value.real, value.imag],
    range: lambda value: [value.start, value.stop, value.step],
    Decimal: str,
    Fraction: lambda value: [encode(value.numerator, _refuse), encode(value.denominator, _refuse)],
    datetime.timedelta: lambda value: [value.days, value.seconds, value.microseconds],
}


def decode(written: Any, resolve: Callable[[str, Any], Any]) -> Any:
    """The value of a JSON.

    Parameters
    ----------
    written : any JSON value
        From `encode`, or anything else that a hostile sender wrote.
    resolve : callable (kind, content) -> object
        Gives an object that is not plain data.

    Raises
    ------
    Exception
        `written` is not a value. The exception may be of any class.
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
    if kind == "bytes":
        return bytes.fromhex(content)
    if kind == "bytearray":
        return bytearray.fromhex(content)
    if kind in ("complex", "range", "timedelta"):
        return {"complex": complex, "range": range, "timedelta": datetime.timedelta}[kind](*content)
    if kind == "int":
        return int(content, 16)
    if kind == "Decimal":
        return Decimal(content)
    if kind == "Fraction":
        return Fraction(*(decode(part, resolve) for part in content))
    if kind == "shared":
        return _shared(*content)
    return resolve(kind, content)


def is_mutable(value: Any) -> bool:
    """Whether a value is plain data that a function may change in place."""
    return type(value) in _MUTABLE


def assign(target: Any, value: Any) -> None:
    """Give a mutable value the contents of another value of its type; other values stay as they are."""
    if type(target) is not type(value):
        return
    if isinstance(target, list | bytearray):
        target[:] = value
    else:
        target.clear()
        target.extend(value) if isinstance(target, deque) else target.update(value)


def _refuse(value: Any) -> Any:
    raise TypeError("no plain value")


def _shared_name(value: Any) -> Any:
    """The JSON of a module, or of a function or class that both sides have; None for any other object."""
    if type(value) is types.ModuleType:
        return ["shared", [value.__name__, ""]] if sys.modules.get(value.__name__) is value else None
    if not isinstance(value, type | types.FunctionType | types.BuiltinFunctionType):
        return None
    module, name = getattr(value, "__module__", None), getattr(value, "__name__", "")
    if module in ("_bisect", "_heapq", "_operator", "_functools", "_collections", "_json", "_random", "_statistics"):
        module = module[1:]
    if module in SHARED_MODULES and getattr(sys.modules.get(module), name, None) is value:
        return ["shared", [module, name]]
    return None


def _shared(module: str, name: str) -> Any:
    """A module, or a function or class of a shared module."""
    if not name:
        return importlib.import_module(module)
    value = getattr(importlib.import_module(module), name) if module in SHARED_MODULES else None
    if name.startswith("_") or not isinstance(value, type | types.FunctionType | types.BuiltinFunctionType):
        raise ValueError("no shared name")
    return value
