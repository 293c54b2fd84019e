"""Calls between a program and its tests, which run in separate processes: JSON lines over a socket.

Both sides have a `Link`, which `processes` makes. An object that is not plain data is a `Remote` on the other side. So
is a function, a class or a module that the program sends, even one that both sides have, such as `eval`: it is called
in the program's process. The tests send functions, classes and modules of the standard library by name, and the
program's side takes its own. A class of exceptions is sent as the names of its bases.

The program's side serves any operation on its objects. The tests' side serves few (`processes._may_serve`): calls of
what a test passes, steps of its iterators, and public attributes, length, text and `==` of objects of the tests' own
classes. It serves no others, because an attribute such as `__globals__` would lead to the tests themselves.

Values are sent as plain data only, so that no method of the sender decides anything. On the tests' side decoding makes
only the types named here, `Remote`s and classes of exceptions, whatever the program wrote: no function and no module.
"""

from __future__ import annotations

import builtins
import contextlib
import copy
import importlib
import io
import json
import math
import operator
import os
import re
import sys
import types
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, cast

#: Modules whose functions and classes both sides have.
SHARED_MODULES = frozenset(
    (
        *("bisect", "builtins", "cmath", "collections", "copy", "datetime", "decimal", "fractions", "functools"),
        *("heapq", "itertools", "json", "math", "operator", "random", "re", "statistics", "string", "typing"),
    )
)
_MUTABLE = (list, dict, set, bytearray, deque, OrderedDict, Counter, defaultdict)
_PLAIN_INT_BITS = 1000  # longer integers are sent as hexadecimal digits: reading decimal digits is slow and limited
#: Arrays of booleans, numbers, texts and dates. An array of objects is no plain data.
_ARRAY_TYPE = re.compile(r"[<>|][biufcSUmM]\d+(\[\w+\])?")

#: Gives the JSON of an object that is not plain data.
Refer = Callable[[Any], Any]
Parts = Callable[[Any], Iterable[Any]]
Make = Callable[..., Any]


def _as_mapping(kind: type) -> tuple[Parts, Make]:
    return lambda value: ([*value], [*value.values()]), lambda keys, values: kind(dict(zip(keys, values, strict=True)))


#: Types of plain data: how a value is taken apart, and how it is made from its parts.
_TYPES: dict[type, tuple[Parts, Make]] = {
    list: (list, lambda *items: list(items)),
    tuple: (list, lambda *items: items),
    set: (list, lambda *items: set(items)),
    frozenset: (list, lambda *items: frozenset(items)),
    deque: (list, lambda *items: deque(items)),
    type({}.keys()): (list, lambda *keys: dict.fromkeys(keys).keys()),
    type({}.values()): (list, lambda *values: dict(enumerate(values)).values()),
    type({}.items()): (list, lambda *items: dict(items).items()),
    **{kind: _as_mapping(kind) for kind in (dict, OrderedDict, Counter)},
    defaultdict: _as_mapping(dict),  # a plain dict on the other side: its factory is a function
    **{kind: (lambda value: [value.isoformat()], kind.fromisoformat) for kind in (date, datetime, time)},
    **{kind: (lambda value: [value.hex()], kind.fromhex) for kind in (bytes, bytearray)},
    int: (lambda value: [hex(value)], lambda digits: int(digits, 16)),
    complex: (lambda value: [value.real, value.imag], complex),
    **{kind: (lambda value: [value.start, value.stop, value.step], kind) for kind in (range, slice)},
    Decimal: (lambda value: [str(value)], Decimal),
    Fraction: (lambda value: [value.numerator, value.denominator], Fraction),
    timedelta: (lambda value: [value.days, value.seconds, value.microseconds], timedelta),
}
_MAKE: dict[str, Make] = {
    **{kind.__name__: make for kind, (_, make) in _TYPES.items()},
    "namedtuple": lambda name, fields, *items: namedtuple(name, fields)(*items),  # checks that they are identifiers
    "ndarray": lambda dtype, shape, data: _array(dtype, shape, data),
}


def encode(value: Any, refer: Refer) -> Any:
    """JSON of a value; RecursionError if the value contains itself."""
    kind = type(value)
    if value is None or kind in (bool, float, str) or (kind is int and value.bit_length() <= _PLAIN_INT_BITS):
        return value
    if kind in _TYPES:
        name, parts = kind.__name__, _TYPES[kind][0](value)
    elif isinstance(value, int | float | str) and not isinstance(value, type):  # such as a member of IntEnum
        return encode(next(base for base in (bool, int, float, str) if isinstance(value, base))(value), refer)
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        name, parts = "namedtuple", [kind.__name__, list(value._fields), *value]
    elif _is_array(value) and _ARRAY_TYPE.fullmatch(value.dtype.str):
        name, parts = "ndarray", [value.dtype.str, value.shape, value.tobytes().hex()]
    elif kind.__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        return encode(value.item(), refer)
    else:
        return refer(value)
    return [name, [encode(part, refer) for part in parts]]


def decode(written: Any, resolve: Callable[[str, Any], Any]) -> Any:
    """The value of a JSON from `encode`, with `resolve` for what is not plain data; any exception for hostile text."""
    if not isinstance(written, list):
        if isinstance(written, dict):
            raise ValueError("no value")
        return written
    kind, content = written
    if kind in _MAKE:
        return _MAKE[kind](*[decode(part, resolve) for part in content])
    return resolve(kind, content)


def _array(dtype: str, shape: tuple[int, ...], data: str) -> Any:
    """An array of numpy, which is imported only here: few programs need it."""
    if not _ARRAY_TYPE.fullmatch(dtype):
        raise ValueError("no array of plain data")
    return importlib.import_module("numpy").frombuffer(bytearray.fromhex(data), dtype).reshape(shape)


def is_mutable(value: Any) -> bool:
    """Whether a value is plain data that a function may change in place."""
    return type(value) in _MUTABLE or _is_array(value)


def assign(target: Any, value: Any) -> None:
    """Give a mutable value the contents of another value of its type; other values stay as they are."""
    kinds = type(target), type(value)
    if (kinds[0] is not kinds[1] and kinds != (defaultdict, dict)) or not is_mutable(target):
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


LARGEST = 32 << 20  # bytes of one message
_LARGEST_LENT = 2_000  # bytes of a part of an object that is given back: it is encoded again at each question

#: Operations on objects of the other side: with two operands, and on one object, as methods of `Remote` (`__len__`).

_BINARY = (
    *("eq", "lt", "le", "gt", "ge"),
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor"),
)
_OF_OBJECTS = {
    **{name: getattr(operator, name) for name in ("index", "neg", "pos", "invert")},
    **{name: getattr(builtins, name) for name in ("len", "bool", "int", "float", "complex", "str", "repr", "hash")},
    **{name: getattr(builtins, name) for name in ("iter", "next", "reversed", "abs", "round", "format")},
    **{name: getattr(math, name) for name in ("trunc", "floor", "ceil")},
    **{name: getattr(operator, name) for name in ("getitem", "setitem", "delitem")},
    **{"copy": copy.copy, "deepcopy": copy.deepcopy},
}
OPERATIONS: dict[str, Callable[..., Any]] = {
    "call": lambda target, /, *arguments, **named: target(*arguments, **named),
    **{name: getattr(builtins, name) for name in ("getattr", "setattr", "delattr")},
    **{name: getattr(operator, name) for name in _BINARY},
    **_OF_OBJECTS,
    "isinstance": lambda target, value: isinstance(value, target),
    "assign": lambda target, value, key, operation: assign(OPERATIONS[operation](target, key), value),
    "await": lambda target: importlib.import_module("asyncio").run(target),
}


def _references(entry: tuple[Any, ...]) -> int:
    return sys.getrefcount(entry[0])


_ALONE = _references(([],))  # number of references to a value that nothing but its entry holds


class Ended(ConnectionError):
    """The other side has ended, or has sent something that is not a message."""


class Link:
    """One side of the socket.

    `may_serve` takes the operation, the target and the arguments, and says whether this side, the tests', serves an
    operation on one of its objects. Without it, this is the program's side, which serves any. `output` is a text stream
    in memory with what this side, the program's, prints. The tests' side prints it again. In a message, "mine" is an
    object of the sender, and "yours" an object of the receiver.
    """

    def __init__(
        self,
        descriptor: int,
        may_serve: Callable[[str, Any, tuple], bool] | None = None,
        output: io.TextIOWrapper | None = None,
    ) -> None:
        self._reader = os.fdopen(descriptor, "rb", closefd=False)
        self._writer = os.fdopen(descriptor, "wb", closefd=False)
        self._may_serve, self._output = may_serve, output
        self._is_program = may_serve is None
        self.has_ended = False
        self.has_failed_assertion = False  # in a function that a test passed to the program, which may hide it
        self._objects: dict[int, Any] = {}  # known to the other side
        self._remotes: dict[int, Remote] = {}
        self._errors: dict[str, type[Exception]] = {}
        self._lent: deque[tuple[Any, ...]] = deque(maxlen=4)  # the last mutable parts of the other side's objects

    def ask(self, operation: str, /, *arguments: Any, **named: Any) -> Any:
        """Ask the other side for an operation and return its result. An exception there is raised here."""
        self._give_back()
        self._send(["ask", operation, [self._encode(value) for value in arguments], self._named(named)])
        while True:
            kind, *content = self._receive()
            if kind == "ask":
                self._answer(*content)
            elif kind == "value":
                given: dict[Any, Any] = {**dict(enumerate(arguments)), **named}
                for place, changed in content[1]:  # arguments that the operation changed in place
                    assign(given[place], self._decode(changed))
                value = self._decode(content[0])
                self._lend(value, operation, arguments)
                return value
            elif kind == "raised":
                raise self._error(content[0])(content[1])
            else:
                raise Ended("no message")

    def _lend(self, value: Any, operation: str, arguments: tuple[Any, ...]) -> None:
        """Note a part of an object of the other side, such as a list in an attribute, if it may be changed here."""
        if operation in ("getattr", "getitem") and is_mutable(value):
            before = self._encode(value)
            if len(json.dumps(before)) <= _LARGEST_LENT:
                self._lent.append((value, before, operation, *arguments))

    def _give_back(self) -> None:
        """Change parts of the other side's objects as they were changed here, and forget parts that nobody holds."""
        lent = [*self._lent]
        self._lent.clear()
        for entry in lent:
            now, (before, operation, target, key) = self._encode(entry[0]), entry[1:]
            with contextlib.suppress(AttributeError, PermissionError):  # an attribute that cannot be set
                if now != before and self._is_program:
                    self.ask("setattr", target, key, entry[0])  # the tests serve no more
                elif now != before:
                    self.ask("assign", target, entry[0], key, operation)
            if _references(entry) > _ALONE:
                self._lent.append((entry[0], now, operation, target, key))

    def serve(self) -> None:
        """Answer the other side until it ends."""
        while True:
            kind, *content = self._receive()
            if kind != "ask":
                raise Ended("no question")
            self._answer(*content)

    def _answer(self, operation: str, arguments: list, named: dict[str, Any]) -> None:
        """Do an operation for the other side; reply with its result and the arguments changed in place."""
        try:
            values = [self._decode(value) for value in arguments]
            if self._may_serve and not self._may_serve(operation, self._own(arguments[0]), tuple(values[1:])):
                raise PermissionError("not served")
            by_name = {key: self._decode(value) for key, value in named.items()}
            given: dict[Any, Any] = {**dict(enumerate(values)), **by_name}
            written: dict[Any, Any] = {**dict(enumerate(arguments)), **named}
            before = {place: value for place, value in written.items() if is_mutable(given[place])}
            result = OPERATIONS[operation](*values, **by_name)
            self._give_back()
            after = {place: self._encode(given[place]) for place in before}
            changed = [[place, after[place]] for place in before if after[place] != before[place]]
            reply = ["value", self._encode(result), changed]
        except Ended:
            raise
        except BaseException as error:  # also SystemExit: the program must not end the tests
            self.has_failed_assertion |= isinstance(error, AssertionError)
            names = [kind.__name__ for kind in type(error).__mro__]
            reply = ["raised", names, str(error)[:1000]]
        self._send(reply)

    def _named(self, named: dict[str, Any]) -> dict[str, Any]:
        return {key: self._encode(value) for key, value in named.items()}

    def _send(self, message: list) -> None:
        if self._output and (text := _printed(self._output)):
            self._write(["printed", text])
        self._write(message)

    def _write(self, message: list) -> None:
        data = json.dumps(message).encode() + b"\n"
        if len(data) > LARGEST:
            raise Ended("the message is too large")
        try:
            self._writer.write(data)
            self._writer.flush()
        except OSError as error:
            self.has_ended = True
            raise Ended(str(error)) from None

    def _receive(self) -> list:
        """The next message. What the program has printed before it is printed here."""
        while (message := self._read())[0] == "printed":
            sys.stdout.write(message[1])
        return message

    def _read(self) -> list:
        """The next message, or `Ended` if there is none. A line without an end means that the other side has ended."""
        try:
            line = self._reader.readline(LARGEST)
        except OSError:  # the other side ended without reading its message
            line = b""
        self.has_ended = len(line) < LARGEST and line[-1:] != b"\n"
        try:
            message = json.loads(line) if line.endswith(b"\n") else None
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, list) or not message:
            raise Ended("no message")
        return message

    def _own(self, written: Any) -> Any:
        """The object of this side that a message names; None for a value that the other side sent, such as `eval`."""
        is_own = isinstance(written, list) and written[:1] == ["yours"]
        return self._decode(written) if is_own else None

    def _encode(self, value: Any) -> Any:
        return encode(value, self._refer)

    def _refer(self, value: Any) -> Any:
        """How a message names an object that is not plain data."""
        if type(value) is Remote and _part(value, "_remote_link") is self:
            return ["yours", _part(value, "_remote_number")]
        if isinstance(value, type) and issubclass(value, Exception):
            return ["exception", [kind.__name__ for kind in value.__mro__]]
        name = shared_name(value)
        if name and not self._is_program:
            return ["shared", name]
        if type(value) is types.ModuleType and not self._is_program:
            return ["module", value.__name__]
        self._objects[id(value)] = value
        is_coroutine = type(value) is types.CoroutineType and self._is_program
        return ["coroutine" if is_coroutine else "mine", [id(value), name]]

    def _decode(self, written: Any) -> Any:
        return decode(written, self._resolve)

    def _resolve(self, kind: str, content: Any) -> Any:
        """The object that a message names, which is a `Remote` if it belongs to the other side."""
        if kind == "yours":
            return self._objects[content]
        if kind == "exception":
            return self._error(content)
        if self._is_program and kind == "shared":
            return shared(*content)
        if self._is_program and kind == "module":
            return importlib.import_module(content)
        number, name = content
        if kind not in ("mine", "coroutine") or not isinstance(number, int):
            raise ValueError("no value")
        remote = self._remotes.setdefault(number, Remote(self, number, shared(*name) if name else None))
        return remote if kind == "mine" else _awaited(remote)

    def _error(self, names: list[str]) -> type[Exception]:
        """Class for an exception of the other side: a built-in class, or one made here from its first built-in base."""
        # The tests' side always makes a class for `AssertionError` and `Exception`: `except` with the program's name
        # for one of them must not catch a failed assertion.
        kinds = [getattr(builtins, name, None) for name in map(str, names)]
        known = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Exception)), RuntimeError)
        name = str(names[0])
        if known.__name__ == name and (self._is_program or not issubclass(AssertionError, known)):
            return known
        return self._errors.setdefault(name, type(name, (known,), {}))


def _printed(stream: io.TextIOWrapper) -> str:
    """What a program has printed since the last call, at most 1 MiB, from its standard output in memory."""
    stream.flush()
    text = cast(io.BytesIO, stream.buffer).getvalue()[: 1 << 20].decode("utf-8", "replace")
    stream.seek(0)
    stream.truncate()
    return text


class Remote:
    """An object of the other side.

    If both operands are objects of the other side, comparison and arithmetic are done there. If one operand is a value
    of this side, the two are unequal and have no order: an object that claims to equal everything equals nothing. Only
    a function or class that both sides have is compared with this side's own, by its name.
    """

    __slots__ = ("_remote_link", "_remote_number", "_remote_same")

    def __init__(self, link: Link, number: int, same: Any = None) -> None:
        object.__setattr__(self, "_remote_link", link)
        object.__setattr__(self, "_remote_number", number)
        object.__setattr__(self, "_remote_same", same)

    def __getattr__(self, name: str) -> Any:
        # Others could be read by a library that trusts them, as numpy trusts the address in __array_interface__.
        if name.startswith("__") and name not in ("__name__", "__doc__", "__dict__"):
            raise AttributeError(name)
        return _ask(self, "getattr", name)

    def __setattr__(self, name: str, value: Any) -> None:
        _ask(self, "setattr", name, value)

    def __delattr__(self, name: str) -> None:
        _ask(self, "delattr", name)

    def __call__(self, /, *arguments: Any, **named: Any) -> Any:
        return _ask(self, "call", *arguments, **named)

    def __eq__(self, other: Any) -> Any:
        if type(other) is Remote:
            return _ask(self, "eq", other)
        same = _part(self, "_remote_same")
        return NotImplemented if same is None else other is same

    def __enter__(self) -> Any:
        return _ask(self, "getattr", "__enter__")()

    def __exit__(self, *error: Any) -> None:
        """Leave the block. The program sees no error, and cannot hide one, such as a failed assertion."""
        _ask(self, "getattr", "__exit__")(*(None for _ in error))

    def __instancecheck__(self, value: Any) -> bool:
        if type(value) is Remote:
            return _ask(self, "isinstance", value) is True
        same = _part(self, "_remote_same")
        return isinstance(same, type) and isinstance(value, same)


_part = object.__getattribute__


def _ask(remote: Remote, operation: str, /, *arguments: Any, **named: Any) -> Any:
    return _part(remote, "_remote_link").ask(operation, remote, *arguments, **named)


async def _awaited(remote: Remote) -> Any:
    """A coroutine of this side for a coroutine of the program, which runs in the program's process when awaited."""
    return _ask(remote, "await")


def _method(operation: str) -> Callable[..., Any]:
    return lambda self, *arguments: _ask(self, operation, *arguments)


def _binary(operation: str) -> Callable[[Remote, Any], Any]:
    return lambda self, other: _ask(self, operation, other) if type(other) is Remote else NotImplemented


for _name in _OF_OBJECTS:
    setattr(Remote, f"__{_name}__", _method(_name))
for _name in _BINARY[1:]:  # without "eq": `Remote.__eq__`
    setattr(Remote, f"__{_name.rstrip('_')}__", _binary(_name))
