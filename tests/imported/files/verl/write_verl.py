"""Rollouts, a validation and metrics, written by verl's own functions, which are taken out of its source.

Run with the paths of verl's `trainer/ppo/ray_trainer.py` and `utils/tracking.py`; verl itself needs packages for a GPU.
"""

import ast
import json
import os
import sys
from pathlib import Path

import orjson


def taken_from(source, name):
    tree = ast.parse(Path(source).read_text())
    node = next(node for node in ast.walk(tree) if getattr(node, "name", None) == name)
    node.decorator_list = []
    space = {"json": json, "os": os, "orjson": orjson}
    exec(compile(ast.Module([node], []), source, "exec"), space)
    return space[name]


write, FileLogger = taken_from(sys.argv[1], "_write_generations"), taken_from(sys.argv[2], "FileLogger")
questions = ["user\nWhat is 2 + 3?\nassistant\n", "user\nHow many legs has a cat?\nassistant\n"]
inputs, golds = [questions[0]] * 2 + [questions[1]] * 2, ["5", "5", "4", "4"]
outputs = ["It is 5", "No idea", "4", "Four"]
acc = [1.0, 0.0, 1.0, 0.0]
extra = {"acc": acc, "format": [True, False, True, False], "pred": ["5", "", "4", ""], "too_short": [1.0]}
for step in (1, 2):
    write(inputs, outputs, golds, [value + 0.5 * step for value in acc], extra, "rollouts", step)
for step in (0, 2):
    keys = [f"5e0c_{number}_0" for number in range(4)]
    write(inputs, outputs, golds, acc, {"reward": acc, "acc": acc, "uid": keys}, "validation", step)
os.environ["VERL_FILE_LOGGER_PATH"] = "metrics.jsonl"
logger = FileLogger("project", "experiment")
logger.log({"val-core/sums/acc/mean@2": 0.5}, 0)
for step in (1, 2):
    logger.log({"actor/lr": 1e-6, "actor/entropy": 0.5 / step, "critic/score/mean": 0.5, "perf/mfu/actor": 0.1}, step)
logger.finish()
