"""One reader of YAML and one of JSON. They refuse what the usual readers accept in silence, such as a key twice.

They read configs, site files, users' data and most records. Both usual readers keep the last of two equal keys. An arm
that was copied and not renamed would replace the first one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable
from typing import Any

import yaml

from reward_ablation.system.plain_values import DEEPEST, MOST_ENTRIES, check_values, printable

_TWICE = "occurs twice, first in line {first}; rename one of the two, or take it out"
_TOO_DEEP = "lists and objects are nested too deep; flatten them"
_TOO_LONG = "a whole number has too many digits; write it as text"

_INT = "tag:yaml.org,2002:int"
_BY_EIGHTS = re.compile(r"[-+]?0[0-7_]+")

_MERGE = "tag:yaml.org,2002:merge"

#: A JSON text's strings, each with the colon that makes it a key, and the two ends of objects.
_TOKENS = re.compile(r'("[^"\\]*(?:\\.[^"\\]*)*")(\s*:)?|[{}]', re.DOTALL)


class DuplicateKey(ValueError):
    """A key that occurs twice in one mapping."""


def load_json(text: str | bytes, line: int = 1) -> Any:
    """The value of a JSON text that begins on `line` of a file; else DuplicateKey or another ValueError."""
    try:
        return json.loads(text, object_pairs_hook=_distinct)
    except DuplicateKey:
        raise DuplicateKey(_first_duplicate(text if isinstance(text, str) else text.decode(), line)) from None
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except ValueError:
        raise ValueError(_TOO_LONG) from None


def load_yaml(text: str) -> Any:
    """The value of a YAML text that `check_values` accepts, else ValueError. A key may replace one that `<<` merges."""
    try:
        depth = 0
        for event in yaml.parse(text, Loader=_Loader):  # first, because the reader recurses, and may crash Python
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise ValueError(f"{_place(event.start_mark)}: more than {DEEPEST} levels; flatten them")
        value = yaml.load(text, Loader=_Loader)
    except UnicodeEncodeError as error:
        half = ascii(error.object[error.start])
        raise ValueError(f"{printable(text, 60)!r} has half a character (a surrogate), {half}; take it out") from None
    except yaml.reader.ReaderError as error:
        line = text.encode(errors="replace")[: error.position].count(b"\n") + 1
        raise ValueError(f"line {line}: {printable(error.reason)}: {chr(error.character)!a}") from None
    except yaml.MarkedYAMLError as error:
        mark, problem = error.problem_mark or error.context_mark, printable(error.problem or "it cannot be read")
        hint = "; indent with spaces, not tabs" if "tab" in problem or "cannot start any token" in problem else ""
        raise ValueError(f"{_place(mark)}: not YAML: {problem}{hint}") from None
    check_values(value)
    return value


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML's safe loader, which refuses keys that occur twice and says where a wrong value is."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Replace `<<` by the keys that it merges. A mapping comes here before its values are made, and when merged."""
        lines: dict[Hashable, int] = {}
        for key_node, _ in node.value if not hasattr(node, "checked") else ():
            key = self.construct_object(key_node, deep=True) if key_node.tag != _MERGE else key_node
            line = key_node.start_mark.line + 1
            if not isinstance(key, Hashable):
                continue  # the loader itself refuses it
            if key in lines:
                raise DuplicateKey(_twice(key, line, lines[key]))
            lines[key] = line
        node.checked = True  # type: ignore[attr-defined]
        super().flatten_mapping(node)
        if len(node.value) > MOST_ENTRIES:
            raise ValueError(f"{_place(node.start_mark)}: more than {MOST_ENTRIES} entries; take out aliases (*name)")

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """The value of a node. Python's own errors get the place of the value."""
        if node.tag == _INT and _BY_EIGHTS.fullmatch(node.value):
            wrong = f"{node.value} begins with 0, and YAML reads such numbers by eights: 010 is 8"
            raise ValueError(f"{_place(node.start_mark)}: {wrong}; write it without the 0, or in quotes to have text")
        try:
            return super().construct_object(node, deep)
        except (yaml.YAMLError, DuplicateKey):
            raise
        except (ValueError, KeyError, AttributeError) as error:
            if str(error).startswith("line "):
                raise
            problem = _TOO_LONG if "digits" in str(error) else f"{printable(str(error))}; put it in quotes to have text"
            raise ValueError(f"{_place(node.start_mark)}: {problem}") from None


def _place(mark: Any) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}" if mark else "line 1"


def _twice(key: Any, line: int, first: int) -> str:
    return f"line {line}: key {printable(str(key), 80)!r} {_TWICE.format(first=first)}"


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise DuplicateKey
    return values


def _first_duplicate(text: str, first_line: int) -> str:
    """The message on the first key of a JSON text that occurs twice in its object."""
    objects: list[dict[str, int]] = []
    for token in _TOKENS.finditer(text):
        if token[0] == "{":
            objects.append({})
        elif token[0] == "}":
            objects.pop()
        elif token[2]:
            key, line = json.loads(token[1], strict=False), text.count("\n", 0, token.start()) + first_line
            if key in objects[-1]:
                return _twice(key, line, objects[-1][key])
            objects[-1][key] = line
    raise AssertionError("no key occurs twice")
