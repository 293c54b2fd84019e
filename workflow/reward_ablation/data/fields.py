"""Fields of a user's file that are not plain columns: values inside objects and lists, and lists of messages.

`sources` reads a user's own file by it; each known data set has a function of its own. The config's `columns` may name
such a field: `reward_model.ground_truth` or `prompt.0.content` leads to a value. Where a file has lists of messages, as
TRL and verl write them, a question is the text of one message.
"""

from __future__ import annotations

import itertools
import re
import sys
from typing import Any

from reward_ablation.data.reading import Rows
from reward_ablation.system.errors import StudyError
from reward_ablation.system.strict_text import DuplicateKey, load_json

#: Start of a list of messages that JSON, or Python, has written as text.
_AS_TEXT = re.compile(r"""\s*\[\s*\{\s*(["'])(role|content|from|value)\1\s*:""")
#: A name that leads to the text of a message, or to a part of it.
_NAMED = re.compile(r"(.+?)\.(-?\d{1,9})\.(?:content|value)(?:\..+)?")

_ONE_MESSAGE = "a question is one message of the user, after a system message at most; take such rows out"


def column_values(rows: Rows, name: str, where: str) -> list[Any] | None:
    """Values of a column of a file, one a row, None where a row lacks the field; None if no row has the column."""
    # A column with exactly this name goes first. Otherwise the dots of the name lead into objects, by key, and into
    # lists, by position from 0, or from -1 backwards. A text on the way is read as JSON.
    reached, *parts = [name] if any(name in row for row in rows) else name.split(".")
    if not any(reached in row for row in rows):
        return None
    values = [row.get(reached) for row in rows]
    for part in parts:
        outer = [_opened(value, f"{where} row {index}: '{reached}'") for index, value in enumerate(values)]
        if not any(_has(value, part) for value in outer):
            fields = dict.fromkeys(str(key) for value in outer if isinstance(value, dict) for key in value)
            here = f"fields here: {', '.join(fields)}" if fields else "a list has positions, from 0"
            raise StudyError(f"{where}: '{reached}' has no field '{part}', which '{name}' asks for; {here}")
        values = [_field(value, part) for value in outer]
        reached = f"{reached}.{part}"
    return values


def _opened(value: Any, where: str) -> Any:
    """An object or a list, or that of a JSON text; None where there is no value."""
    if isinstance(value, str) and value.strip():
        try:
            value = load_json(value)
        except DuplicateKey as error:
            raise StudyError(f"{where}: {error}") from None
        except ValueError:
            raise StudyError(f"{where} is a text and not JSON, so that it has no fields") from None
    if value is None or value == "" or value != value or isinstance(value, dict | list):
        return value if isinstance(value, dict | list) else None
    raise StudyError(f"{where} is of type {type(value).__name__} and has no fields")


def _has(value: Any, part: str) -> bool:
    if isinstance(value, list):
        return re.fullmatch(r"-?\d{1,9}", part) is not None and -len(value) <= int(part) < len(value)
    return value is not None and part in value


def _field(value: Any, part: str) -> Any:
    if not _has(value, part):
        return None
    return value[int(part)] if isinstance(value, list) else value[part]


def refuse_messages(value: Any, ours: str, theirs: str, where: str) -> None:
    """Refuse an object or a list of messages in place of a text, and say how `columns` can name the text."""
    if isinstance(value, dict):
        remedy = f"name the field with its text, as in columns: {{{ours}: {theirs}.field}}"
        raise StudyError(f"{where}: {ours} is an object; {remedy}; fields here: {', '.join(map(str, value))}")
    if isinstance(value, str) and _AS_TEXT.match(value):
        try:
            value = load_json(value)
        except ValueError:
            raise StudyError(
                f"{where}: {ours} is a list of messages as Python writes it, not as JSON; save the file as JSON Lines "
                "or Parquet"
            ) from None
    if not (roles := _roles(value)):
        return
    said = f"{where}: {ours} is a list of messages ({', '.join(roles)})"
    text = "content" if "role" in value[0] else "value"
    if ours != "question":
        raise StudyError(f"{said}; name a message's text, as in columns: {{{ours}: {theirs}.-1.{text}}}")
    position = _question_in(roles)
    if position is None:
        raise StudyError(f"{said}, and {_ONE_MESSAGE}")
    system = ", and give the system message as prompt.system" if position else ""
    raise StudyError(f"{said}; name its text with columns: {{question: {theirs}.{position}.{text}}}{system}")


def check_question(rows: Rows, name: str, where: str) -> None:
    """Refuse a `name` of the question that takes a part out of a longer conversation. Print which part is not used."""
    named = _NAMED.fullmatch(name)
    if named is None or any(name in row for row in rows):
        return
    with_system = 0
    for index, value in enumerate(column_values(rows, named[1], where) or []):
        roles = _roles(load_json(value) if isinstance(value, str) and value.strip() else value)
        if roles and _question_in(roles) not in (int(named[2]), int(named[2]) + len(roles)):
            said = f"{where} row {index}: '{name}' is not the question of its messages ({', '.join(roles)})"
            raise StudyError(f"{said}: {_ONE_MESSAGE}")
        with_system += bool(roles and _question_in(roles))
    if with_system:
        said = f"{where}: {with_system} of {len(rows)} rows have a system message, which is not used"
        print(f"{said}; the study's is prompt.system", file=sys.stderr)


def _question_in(roles: list[str]) -> int | None:
    """Position of the one message of the user, if only system messages come before it."""
    before = list(itertools.takewhile(("system", "developer").__contains__, roles))
    return len(before) if roles.count("user") == 1 and roles[len(before)] == "user" else None


def _roles(value: Any) -> list[str]:
    """Roles of a list of messages, also of ShareGPT's, which come `from` a human; empty for any other value."""
    if not isinstance(value, list) or not all(
        isinstance(part, dict) and {"role", "from"} & part.keys() for part in value
    ):
        return []
    roles = [str(part.get("role", part.get("from"))) for part in value]
    return ["user" if role == "human" else role for role in roles]
