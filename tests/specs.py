"""Complete specs for tests that set only a few of the keys."""

from __future__ import annotations

from typing import Any

DATA = {"source": {"source": "file", "limit": None, "columns": {}, "content": "0" * 64}}
DATA |= {"duplicates": "refuse", "overlap": "refuse"}
#: A spec of an arm; a run's has a seed too.
ARM = {
    "model": {"source": "local", "content": "0" * 64},
    "data": DATA,
    "prompt": {"system": None, "template": "{question}\n", "chat": False},
    "components": {},
    "training": {},
    "lora": None,
    "gradients": {"every": 1, "whole": []},
    "weights": {},
    "gpus": 0,
}
COMPONENT = {"parameters": {}, "placement": "all_tokens"}
LORA = {"r": 16, "lora_alpha": 32, "lora_dropout": 0, "target_modules": "all-linear"}


def arm_spec(**keys: Any) -> dict[str, Any]:
    """JSON value of an arm's spec with some of its keys; parts of components, lora and gradients may be left out."""
    spec = ARM | keys
    spec["components"] = {name: COMPONENT | component for name, component in spec["components"].items()}
    spec["lora"] = LORA | spec["lora"] if spec["lora"] is not None else None
    spec["gradients"] = ARM["gradients"] | spec["gradients"]
    return spec
