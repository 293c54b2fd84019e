"""Lists of messages in a user's file, as TRL and verl have them. A question is the text of one message."""

from __future__ import annotations

import itertools
import re
import sys
from typing import Any

from reward_ablation.data.nested_fields import column_values
from reward_ablation.data.reading import Rows
from reward_ablation.system.errors import StudyError
from reward_ablation.system.strict_text import load_json

#: Start of a list of messages that JSON, or Python, has written as text.
_AS_TEXT = re.compile(r"""\s*\[\s*\{\s*(["'])(role|content|from|value)\1\s*:""")
#: A name that leads to the text of a message, or to a part of it.
_NAMED = re.compile(r"(.+?)\.(-?\d{1,9})\.(?:content|value)(?:\..+)?")

_ONE_MESSAGE = "a question is one message of the user, after a system message at most; take such rows out"


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
