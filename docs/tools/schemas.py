"""Generate the JSON schemas: of the settings of TRL's trainers, and of the whole config for editors.

Run as `python docs/tools/schemas.py` (`make schemas`). Imports TRL only when run.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from enum import Enum, EnumType
from pathlib import Path
from typing import Any

from reward_ablation.config.study_config import StudyConfig
from reward_ablation.config.trl_settings import BOUNDS, GRPO, SFT, TrlSettings, schema_in

ALL_SETTINGS = (GRPO, SFT)
WORKFLOW = Path(__file__).parents[2] / "workflow"
CONFIG_FILE = WORKFLOW / "schemas" / "config.schema.json"

_JSON_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", dict: "object", list: "array"}


def type_rule(annotation: Any) -> dict[str, Any]:
    """JSON schema of a dataclass field's annotation, without types that JSON does not have."""
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        options = typing.get_args(annotation)
        if any(isinstance(option, EnumType) for option in options):  # declared as Enum | str: any string would pass
            options = tuple(option for option in options if option is not str)
        if any(option is dict or typing.get_origin(option) is dict for option in options):
            options = tuple(option for option in options if option is not str)  # JSON in a text, for command lines
        rules = [rule for rule in map(type_rule, options) if rule]
        return rules[0] if len(rules) == 1 else {"anyOf": rules}
    if origin is typing.Literal:
        return {"enum": list(typing.get_args(annotation))}
    if annotation is type(None):
        return {"type": "null"}
    if isinstance(annotation, EnumType):
        return {"enum": [member.value for member in typing.cast("type[Enum]", annotation)]}
    name = _JSON_TYPES.get(origin or annotation)
    return {"type": name} if name else {}


def settings_schema(settings: TrlSettings) -> dict[str, Any]:
    """JSON schema of a config class of TRL, without the settings that the workflow decides."""
    import trl

    choices = {name: {"enum": values} for name, values in settings.choices.items()}
    properties = {
        field.name: {**(choices.get(field.name) or type_rule(field.type)), **BOUNDS.get(field.name, {})}
        for field in dataclasses.fields(getattr(trl, settings.config))
        if field.init and field.name not in settings.reserved
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"trl.{settings.config} of TRL {trl.__version__}",
        "type": "object",
        "additionalProperties": False,
        "properties": dict(sorted(properties.items())),
    }


def config_schema() -> dict[str, Any]:
    """JSON schema of the study config, including the settings of TRL's trainers."""
    schema = StudyConfig.model_json_schema()
    definitions = schema["$defs"]
    places = {
        "GRPOSettings": (GRPO, (schema, definitions["Arm"])),
        "SFTSettings": (SFT, (definitions["Sft"],)),
    }
    for name, (settings, owners) in places.items():
        definitions[name] = {key: value for key, value in settings.schema().items() if key != "$schema"}
        for owner in owners:
            owner["properties"]["training"] = {"$ref": f"#/$defs/{name}"}
    return schema


def as_text(schema: dict[str, Any]) -> str:
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for settings in ALL_SETTINGS:
        (WORKFLOW / "reward_ablation" / "config" / settings.file).write_text(as_text(settings_schema(settings)))
    schema_in.cache_clear()
    CONFIG_FILE.parent.mkdir(parents=True, exist_ok=True)
    CONFIG_FILE.write_text(as_text(config_schema()))
