"""Generate the JSON schemas: of TRL's training settings, and of the whole config for editors.

Run as `python -m reward_ablation.study.schemas` (`make schemas`). The only module of `study`
that imports TRL, and only when run.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from enum import Enum
from pathlib import Path
from typing import Any

from reward_ablation.study import grpo_settings

SETTINGS_FILE = Path(__file__).with_name("grpo_settings.json")
CONFIG_FILE = Path(__file__).parents[2] / "schemas" / "config.schema.json"

#: GRPOConfig declares these as plain strings and refuses a wrong one only in the middle of training.
CHOICES = {
    "loss_type": ["grpo", "dapo", "dr_grpo", "bnpo", "cispo", "sapo", "luspo", "vespo"],
    "scale_rewards": ["group", "batch", "none"],
    "multi_objective_aggregation": ["sum_then_normalize", "normalize_then_sum"],
    "importance_sampling_level": ["token", "sequence"],
    "vllm_importance_sampling_mode": ["token_truncate", "token_mask", "sequence_truncate", "sequence_mask"],
}

_JSON_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", dict: "object", list: "array"}


def _is_enum(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Enum)


def type_rule(annotation: Any) -> dict[str, Any]:
    """JSON schema of a dataclass field's annotation; what JSON cannot hold is left out."""
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        options = typing.get_args(annotation)
        if any(_is_enum(option) for option in options):  # declared as Enum | str: any string would pass
            options = tuple(option for option in options if option is not str)
        rules = [rule for rule in map(type_rule, options) if rule]
        return rules[0] if len(rules) == 1 else {"anyOf": rules}
    if origin is typing.Literal:
        return {"enum": list(typing.get_args(annotation))}
    if annotation is type(None):
        return {"type": "null"}
    if _is_enum(annotation):
        return {"enum": [member.value for member in annotation]}
    name = _JSON_TYPES.get(origin or annotation)
    return {"type": name} if name else {}


def grpo_schema() -> dict[str, Any]:
    """JSON schema of `trl.GRPOConfig`, less the settings that the workflow decides."""
    import trl

    properties = {}
    for field in dataclasses.fields(trl.GRPOConfig):
        if not field.init or field.name in grpo_settings.RESERVED:
            continue
        rule = type_rule(field.type)
        if field.name in CHOICES:
            rule = {"enum": CHOICES[field.name]}
        properties[field.name] = rule
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"trl.GRPOConfig of TRL {trl.__version__}",
        "type": "object",
        "additionalProperties": False,
        "properties": dict(sorted(properties.items())),
    }


def config_schema() -> dict[str, Any]:
    """JSON schema of the study config, with the training settings in their two places."""
    from reward_ablation.study.config import StudyConfig

    schema = StudyConfig.model_json_schema()
    training = {key: value for key, value in grpo_settings.schema().items() if key != "$schema"}
    schema["$defs"]["GRPOSettings"] = training
    for owner in (schema, schema["$defs"]["Arm"]):
        owner["properties"]["training"] = {"$ref": "#/$defs/GRPOSettings"}
    return schema


def as_text(schema: dict[str, Any]) -> str:
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    SETTINGS_FILE.write_text(as_text(grpo_schema()))
    grpo_settings.schema.cache_clear()
    CONFIG_FILE.parent.mkdir(parents=True, exist_ok=True)
    CONFIG_FILE.write_text(as_text(config_schema()))
