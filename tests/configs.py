"""A valid config for tests, and changes to one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reward_ablation.study.resolve import resolve
from reward_ablation.system.errors import StudyError

CONFIG = {
    "name": "study",
    "seeds": [0, 1],
    "model": {"source": "demo"},
    "data": {
        "train": {"source": "word_problems", "count": 10, "split": "train"},
        "evaluation": {"test": {"source": "word_problems", "count": 10, "split": "test"}},
    },
    "components": {
        "correctness": {"function": "correctness", "parameters": {"answer_format": "hash"}},
        "format": {"function": "answer_format", "parameters": {"format": "hash"}},
    },
    "arms": {
        "design": "list",
        "arms": {"a": {"weights": {"correctness": 1}}, "b": {"weights": {"correctness": 1, "format": 0.5}}},
    },
    "training": {"max_steps": 10},
    "evaluation": {"answer_format": "hash"},
}

#: Stands for a key that is to be taken out.
REMOVE = object()


def changed(config: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The config with another value at a path such as `data/train/count`."""
    *parents, last = path.split("/")
    section = config
    for key in parents:
        section = section[key]
    if value is REMOVE:
        del section[last]
    else:
        section[last] = value
    return config


def refusal(config: dict[str, Any], root: Path | None = None) -> str:
    """The one line with which a config is refused, without the name of its file."""
    with pytest.raises(StudyError) as error:
        resolve(config, "study.yaml", root or Path())
    line = str(error.value)
    assert line.startswith("study.yaml: ")
    assert "\n" not in line
    return line.removeprefix("study.yaml: ")
