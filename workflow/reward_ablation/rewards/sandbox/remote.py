"""Calls between a program and its tests, which run in separate processes: JSON lines over a socket.

Both sides have a `Link`. An object that is not plain data is a `Remote` on the other side. The program's side serves
any operation on its objects. The tests' side serves calls of the functions that a test passes, and public attributes of
objects of the tests' own classes. It serves no others, because an attribute such as `__globals__` would lead to the
tests themselves.
"""

from __future__ import annotations

import builtins
import json
import operator
import os
from collections.abc import Callable, Iterator
from typing import Any

from reward_ablation.rewards.sandbox.values import assign, decode, encode, is_mutable

LARGEST = 32 << 20  # bytes of one message

_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor")
_OF_BUILTINS = ("getattr", "setattr", "delattr", "len", "iter", "next", "str", "repr", "bool")
OPERATIONS: dict[str, Callable[..., Any]] = {
    "call": lambda target, *arguments, **named: target(*arguments, **named),
    **{name: getattr(builtins, name) for name in _OF_BUILTINS},
    **{name: getattr(operator, name) for name in ("getitem", "setitem", "delitem", *_COMPARISONS, *_ARITHMETIC)},
    "isinstance": lambda target, value: isinstance(value, target),
}


class Ended(ConnectionError):
    """The other side has ended, or has sent something that is not a message."""


class Link:
    """One side of the socket.

    Parameters
    ----------
    descriptor : int
        File descriptor of the socket.
    may_serve : callable (operation, target, arguments) -> bool
        Whether this side serves an operation on one of its objects.
    """

    def __init__(self, descriptor: int, may_serve: Callable[[str, Any, tuple], bool]) -> None:
        self._descriptor, self._may_serve = descriptor, may_serve
        self.has_ended = False
        self._received = b""
        self._objects: dict[int, Any] = {}  # known to the other side
        self._remotes: dict[int, Remote] = {}
        self._errors: dict[str, type[Exception]] = {}

    def ask(self, operation: str, *arguments: Any, **named: Any) -> Any:
        """Ask the other side for an operation and return its result. An exception there is raised here."""
        self._send(["ask", operation, [self._encode(value) for value in arguments], self._named(named)])
        while True:
            kind, *content = self._receive()
            if kind == "ask":
                self._answer(*content)
            elif kind == "value":
                for place, changed in content[1]:
                    assign(arguments[place], self._decode(changed))
                return self._decode(content[0])
            elif kind == "raised":
                raise self._error(content[0])(content[1])
            else:
                raise Ended("no message")

    def serve(self) -> None:
        """Answer the other side until it ends."""
        while True:
            kind, *content = self._receive()
            if kind != "ask":
                raise Ended("no question")
            self._answer(*content)

    def _answer(self, operation: str, arguments: list, named: dict[str, Any]) -> None:
        try:
            values = [self._decode(value) for value in arguments]
            if not self._may_serve(operation, self._own(arguments[0]), tuple(values[1:])):
                raise PermissionError("not served")
            before = {place: value for place, value in enumerate(arguments) if is_mutable(values[place])}
            result = OPERATIONS[operation](*values, **{key: self._decode(value) for key, value in named.items()})
            after = {place: self._encode(values[place]) for place in before}
            changed = [[place, after[place]] for place in before if after[place] != before[place]]
            reply = ["value", self._encode(result), changed]
        except Ended:
            raise
        except BaseException as error:  # also SystemExit: the program must not end the tests
            names = [kind.__name__ for kind in type(error).__mro__]
            reply = ["raised", names, str(error)[:1000]]
        self._send(reply)

    def _named(self, named: dict[str, Any]) -> dict[str, Any]:
        return {key: self._encode(value) for key, value in named.items()}

    def _send(self, message: list) -> None:
        data = memoryview(json.dumps(message).encode() + b"\n")
        if len(data) > LARGEST:
            raise Ended("the message is too large")
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError as error:
            self.has_ended = True
            raise Ended(str(error)) from None

    def _receive(self) -> list:
        parts = [self._received]
        while b"\n" not in parts[-1]:
            try:
                part = os.read(self._descriptor, 1 << 16)
            except OSError:  # the other side ended without reading its message
                part = b""
            self.has_ended = not part
            if not part or sum(map(len, parts)) > LARGEST:
                raise Ended("no message")
            parts.append(part)
        line, _, self._received = b"".join(parts).partition(b"\n")
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            raise Ended("no message") from None
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
        if type(value) is Remote and object.__getattribute__(value, "_link") is self:
            return ["yours", object.__getattribute__(value, "_number")]
        if isinstance(value, type) and issubclass(value, Exception):
            return ["exception", [kind.__name__ for kind in value.__mro__]]
        self._objects[id(value)] = value
        return ["mine", id(value)]

    def _decode(self, written: Any) -> Any:
        return decode(written, self._resolve)

    def _resolve(self, kind: str, content: Any) -> Any:
        if kind == "yours":
            return self._objects[content]
        if kind == "mine" and isinstance(content, int):
            return self._remotes.setdefault(content, Remote(self, content))
        if kind == "exception":
            return self._error(content)
        raise ValueError("no value")

    def _error(self, names: list[str]) -> type[Exception]:
        """Class for an exception of the other side, by the names of its classes: a built-in class, or one made here."""
        kinds = [getattr(builtins, name, None) for name in map(str, names)]
        known = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Exception)), RuntimeError)
        name = str(names[0])
        if known.__name__ == name:
            return known
        return self._errors.setdefault(name, type(name, (known,), {}))


class Remote:
    """An object of the other side.

    If both operands are objects of the other side, comparison and arithmetic are done there. If one operand is a value
    of this side, the two are unequal and have no order: an object that claims to equal everything equals nothing.
    """

    __slots__ = ("_link", "_number")

    def __init__(self, link: Link, number: int) -> None:
        object.__setattr__(self, "_link", link)
        object.__setattr__(self, "_number", number)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in ("__name__", "__doc__"):
            raise AttributeError(name)
        return _ask(self, "getattr", name)

    def __setattr__(self, name: str, value: Any) -> None:
        _ask(self, "setattr", name, value)

    def __delattr__(self, name: str) -> None:
        _ask(self, "delattr", name)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return _ask(self, "call", *arguments, **named)

    def __len__(self) -> int:
        return _ask(self, "len")

    def __bool__(self) -> bool:
        return _ask(self, "bool")

    def __str__(self) -> str:
        return _ask(self, "str")

    def __repr__(self) -> str:
        return _ask(self, "repr")

    def __iter__(self) -> Iterator:
        return _ask(self, "iter")

    def __next__(self) -> Any:
        return _ask(self, "next")

    def __getitem__(self, key: Any) -> Any:
        return _ask(self, "getitem", key)

    def __setitem__(self, key: Any, value: Any) -> None:
        _ask(self, "setitem", key, value)

    def __delitem__(self, key: Any) -> None:
        _ask(self, "delitem", key)

    def __enter__(self) -> Any:
        return _ask(self, "getattr", "__enter__")()

    def __exit__(self, *error: Any) -> Any:
        return _ask(self, "getattr", "__exit__")(*(None for _ in error))

    def __instancecheck__(self, value: Any) -> bool:
        return type(value) is Remote and _ask(self, "isinstance", value) is True

    def __hash__(self) -> int:
        return hash(object.__getattribute__(self, "_number"))


def _ask(remote: Remote, operation: str, *arguments: Any, **named: Any) -> Any:
    return object.__getattribute__(remote, "_link").ask(operation, remote, *arguments, **named)


def _binary(operation: str) -> Callable[[Remote, Any], Any]:
    def method(self: Remote, other: Any) -> Any:
        return _ask(self, operation, other) if type(other) is Remote else NotImplemented

    return method


for _operation in (*_COMPARISONS, *_ARITHMETIC):
    setattr(Remote, f"__{_operation.rstrip('_')}__", _binary(_operation))
