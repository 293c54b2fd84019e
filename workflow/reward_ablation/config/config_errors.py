"""Pydantic's validation errors as one line: `key: what is wrong; what is allowed`.

`study.resolve` describes what is wrong with a config by `describe`. The readers of site files and of imports call
`validate_spec`, and the commands of jobs call it for their `--spec`.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import TypeAdapter, ValidationError

from reward_ablation.config.base import PATTERNS_IN_WORDS
from reward_ablation.system.errors import StudyError
from reward_ablation.system.strict_text import load_json


def read_spec(text: str) -> Any:
    """The JSON value of a command's --spec; a StudyError if the text is not JSON."""
    try:
        return load_json(text)
    except ValueError as error:
        raise StudyError(f"--spec: not JSON ({error})") from error


def validate_spec(kind: Any, written: Any, where: str = "--spec") -> Any:
    """A spec as its model, or as one of a union; else StudyError `where: key: what is wrong; what is allowed`."""
    try:
        return TypeAdapter(kind).validate_python(written)
    except ValidationError as error:
        raise StudyError(f"{where}: {describe(error, written)}") from error


def describe(error: ValidationError, config: Any) -> str:
    """The first error of a validation in one line, with the keys as `config` has them; and how many more."""
    first, *others = error.errors()
    more = f" (and {len(others)} more)" if others else ""
    keys = _written_keys(first, config)
    return f"{keys}: {_what(first, keys)}{more}"


def _written_keys(error: Any, config: Any) -> str:
    """The location of an error as the dotted keys that the user wrote, without pydantic's marks, such as union tags."""
    keys = []
    for part in error["loc"]:
        try:
            config = config[part]
        except (KeyError, IndexError, TypeError):
            continue
        keys.append(str(part))
    if error["type"] == "missing":
        keys.append(str(error["loc"][-1]))
    return ".".join(keys) or "config"


#: Examples of sections for which users write a single word, by the pattern of their keys. TEXT stands for the word.
_EXAMPLES = {
    r"model": "{source: hub, id: TEXT, revision: <40 hex digits of a commit>}",
    r"data\.train|data\.evaluation\.\w+": "{source: TEXT, split: train}",
    r"data\.evaluation": "{my_test: {source: TEXT, split: test}}",
    r"components\.\w+": "{function: TEXT}",
    r"evaluation": "{answer_format: TEXT}",
}


def _not_a_mapping(error: Any, keys: str) -> str:
    """What is wrong with a value that must be a mapping, with an example where users often write a single word."""
    value = error["input"]
    examples = [each for pattern, each in _EXAMPLES.items() if isinstance(value, str) and re.fullmatch(pattern, keys)]
    such = "".join(f", such as {keys.rpartition('.')[2]}: {each}" for each in examples[:1])
    return f"{_short(value)} is not a mapping of keys to values; write one{such.replace('TEXT', _short(value)[1:-1])}"


def _what(error: Any, keys: str) -> str:
    """What is wrong with the value at the dotted `keys`, in words, by pydantic's kinds of errors."""
    context = error.get("ctx", {})
    discriminator = context.get("discriminator", "").strip("'")
    match error["type"]:
        case "value_error":
            return str(context["error"])
        case "model_type" | "model_attributes_type" | "dict_type":
            return _not_a_mapping(error, keys)
        case "missing":
            return "missing; it has no default"
        case "union_tag_invalid":
            tags = context["expected_tags"].replace("'", "")
            return f"{discriminator} {context['tag']!r} is not allowed; allowed: {tags}"
        case "union_tag_not_found":
            return f"{discriminator} is missing; it says of which kind this is"
        case "string_pattern_mismatch":
            return f"{_short(error['input'])} is not allowed; allowed: {PATTERNS_IN_WORDS[context['pattern']]}"
        case "too_short" | "too_long":
            there = len(error["input"])
            least = error["type"] == "too_short"
            needed = f"at least {context['min_length']} needed" if least else f"at most {context['max_length']} allowed"
            return f"has {there} {'entry' if there == 1 else 'entries'}; {needed}"
        case _:
            message = error["msg"]
            return f"{_short(error['input'])} is not allowed; {message[0].lower()}{message[1:]}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
