"""What all config models share: the strict base class, and the patterns of names, folders and hub addresses.

The sections of the config, the site file, imports and the specs of jobs are built on it, so that all refuse alike.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, ClassVar, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

#: Names of arms, components and data sets: they become wildcards, file names and column names.
NAME_PATTERN = r"[A-Za-z][A-Za-z0-9_]*"

NAME = rf"^{NAME_PATTERN}$"
Name = Annotated[str, StringConstraints(pattern=NAME, max_length=80)]

#: Largest whole number of a key without a limit of its own. Libraries in C take no more than 32 bits.
LARGEST_INT = 2**31 - 1
PositiveInt = Annotated[int, Field(gt=0, le=LARGEST_INT)]
NonNegativeInt = Annotated[int, Field(ge=0, le=LARGEST_INT)]

#: A seed. NumPy takes seeds below 2^32, and each process of a run adds its number.
HIGHEST_SEED = 2**32 - 2**16


def _read_digits(written: Any) -> Any:
    """Digits as a number: Snakemake reads `--config seeds=[0]` as text. Anything else stays and is refused."""
    if not isinstance(written, str) or not written.isdecimal() or not written.isascii():
        return written
    if written != str(int(written)):
        raise ValueError(
            f"{written!r} begins with 0; write {int(written)}, as YAML reads such numbers by eights: 010 is 8"
        )
    return int(written)


def _each_once(written: Any) -> Any:
    """Refuse a mapping in which a seed occurs twice, as a number and as a text: one of the two would be lost."""
    keys = [str(key) for key in written] if isinstance(written, dict) else []
    if twice := [key for key in keys if keys.count(key) > 1]:
        raise ValueError(f"seed {twice[0]} occurs twice, as a number and as a text; take one out")
    return written


Seed = Annotated[int, Field(ge=0, le=HIGHEST_SEED, strict=True), BeforeValidator(_read_digits)]
#: Refuses equal seeds among the keys of a mapping.
SEEDS_ONCE = BeforeValidator(_each_once)

#: A folder below the project's. Its characters need no quotes in commands, Snakemake's patterns and Slurm's file names.
FOLDER = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$"
Folder = Annotated[str, StringConstraints(pattern=FOLDER, max_length=200)]

#: A commit on the hub.
COMMIT = r"^[0-9a-f]{40}$"

#: A repository on the hub.
REPOSITORY = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)?$"
Repository = Annotated[str, StringConstraints(pattern=REPOSITORY, max_length=200)]

#: What each pattern allows, in words, for messages. Every pattern of a key must be here.
PATTERNS_IN_WORDS = {
    NAME: "letters, digits and _, with a letter first",
    FOLDER: "a folder below the project's, such as results/mine: of letters, digits, _, - and ., without / at its ends",
    COMMIT: "the full hash of a commit, 40 of the characters 0-9 and a-f; the page of the model or data set on the hub "
    "lists commits under Files, History",
    REPOSITORY: "a repository on the hub, such as Qwen/Qwen2.5-0.5B-Instruct",
}


def _with_text_keys(value: Any) -> Any:
    """Refuse a mapping at any depth with another key than text: the job gets parameters as JSON, where 1 is "1"."""
    for key, each in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(value, dict) and not isinstance(key, str):
            raise ValueError(
                f"the key {key!r} is no text, and JSON has no others; write '{key}', which is what jobs get"
            )
        if isinstance(each, dict | list):
            _with_text_keys(each)
    return value


#: Keyword arguments of a function, which reach its job as JSON.
Parameters = Annotated[dict[str, Any], AfterValidator(_with_text_keys)]


def _one_line(text: str) -> str:
    if len(text.splitlines()) > 1 or text != text.strip("\n\r"):
        raise ValueError("more than one line; write the text in one line")
    return text


#: A text of one line, such as a path, the name of a column, or a resource for Slurm.
Line = Annotated[str, Field(max_length=1000), AfterValidator(_one_line)]


@cache
def _unknown_key(key: str, allowed: tuple[str, ...]) -> str:
    """The message about an unknown key; cached, since pydantic tries a value as each of several sections."""
    near = difflib.get_close_matches(key, allowed, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"unknown key '{key}'; {hint}allowed: {', '.join(allowed)}"


def _for_numbers(annotation: Any) -> bool:
    """Whether a field has numbers, one or many, but no truth values, and no section or validator that sees to them."""
    parts = list(_parts(annotation))
    sees_to_them = any(isinstance(part, BeforeValidator) or _is_section(part) for part in parts)
    others = sees_to_them or bool in parts or Any in parts
    return (int in parts or float in parts) and not others


def _is_section(part: Any) -> bool:
    return isinstance(part, type) and issubclass(part, BaseModel)


def _parts(annotation: Any) -> Iterator[Any]:
    for part in get_args(annotation):
        yield part
        yield from _parts(part)


class Section(BaseModel):
    """A part of the config, a site file or a spec. `gone` has keys of earlier versions, and what to do instead."""

    gone: ClassVar[dict[str, str]] = {}

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _name_the_allowed_keys(cls, data: Any) -> Any:
        allowed = [field.alias or name for name, field in cls.model_fields.items()]
        unknown = [key for key in data if key not in allowed] if isinstance(data, dict) else []
        if gone := [key for key in unknown if key in cls.gone]:
            raise ValueError(f"{gone[0]}: {cls.gone[gone[0]]}")
        if unknown:
            raise ValueError(_unknown_key(str(unknown[0]), tuple(allowed)))
        return data

    @model_validator(mode="before")
    @classmethod
    def _no_truth_values_as_numbers(cls, data: Any) -> Any:
        """Refuse yes, no, on, off, true and false where a number belongs: Python counts them as 1 and 0."""
        for name, field in cls.model_fields.items() if isinstance(data, dict) else ():
            key = field.alias or name
            value = data.get(key)
            values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
            wrong = [each for each in values if isinstance(each, bool)]
            if wrong and _for_numbers(Annotated[field.annotation, *field.metadata, ""]):  # Annotated needs metadata
                raise ValueError(f"{key}: {wrong[0]} is a truth value, as YAML reads yes and no, too; write a number")
        return data
