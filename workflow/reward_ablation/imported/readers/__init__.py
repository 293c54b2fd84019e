"""Readers of files of other systems, one module each.

`imported.runs` and `imported.answers` call `reader` with the format that the YAML names.

A reader has `read_rollouts(path, options)`, `read_answers(path, options)`, or both. It runs nothing of what it reads,
and follows no path or link that is written in a file. Beside its rows it holds one line, row group or entry of a zip in
memory; JSON files, such as inspect's logs, and TRL's file of a step are read as a whole.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

#: Formats that a study may name, each with its module here.
_NAMES = ("trl", "table", "reward_ablation", "verl", "prime_rl", "lm_eval", "lighteval", "inspect")
READERS = {**{name: name for name in _NAMES}, "verifiers": "prime_rl"}

#: Formats of rollouts and of answers.
FORMATS = {
    "rollouts": ["trl", "table", "reward_ablation", "verl", "prime_rl", "verifiers"],
    "answers": ["table", "reward_ablation", "verl", "prime_rl", "verifiers", "lm_eval", "lighteval", "inspect"],
}


def reader(name: str) -> ModuleType:
    """The module that reads a format of `READERS`."""
    return import_module(f"{__name__}.{READERS[name]}")
