"""What all config models share: the strict base class and the pattern of names."""

from __future__ import annotations

import difflib
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, StringConstraints, model_validator

#: Names of arms, components and data sets: they become wildcards, file names and column names.
NAME_PATTERN = r"[A-Za-z][A-Za-z0-9_]*"

Name = Annotated[str, StringConstraints(pattern=rf"^{NAME_PATTERN}$", max_length=80)]


class Section(BaseModel):
    """A part of the config: unknown keys are refused, values cannot be changed later."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _name_the_allowed_keys(cls, data: Any) -> Any:
        unknown = [key for key in data if key not in cls.model_fields] if isinstance(data, dict) else []
        if unknown:
            near = difflib.get_close_matches(str(unknown[0]), cls.model_fields, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise ValueError(f"unknown key '{unknown[0]}'; {hint}allowed: {', '.join(cls.model_fields)}")
        return data
