"""How users of the other systems load files: the calls of numpy and json from their READMEs."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import numpy as np

#: Parts of gradients that rldynamics' README takes out of an archive.
PARTS = ("correctness", "format", "length")


def gradients(file: Path) -> dict[str, dict[str, np.ndarray]]:
    """rldynamics, "Gradient Analysis Output": the gradients of each component by `component/parameter`."""
    data = np.load(file)
    return {part: {k: v for k, v in data.items() if k.startswith(f"{part}/")} for part in PARTS}


def trends(file: Path) -> dict[str, list[float]]:
    """rldynamics, "Reward Tracking Output": three quantities by step."""
    with open(file) as f:
        data = json.load(f)
    names = ("avg_correctness", "avg_format", "avg_actual_length")
    return {name: [s["statistics"][name] for s in data["steps"]] for name in names}


def accuracy_of_prompts(file: Path) -> dict[tuple[str, int], float]:
    """simple_grpo, accuracy over steps for a prompt id: the share of right rollouts by prompt id and step."""
    correct = defaultdict(list)
    with open(file, encoding="utf-8") as f:
        for line in f:
            record = json.loads(line)
            correct[record["prompt_id"], record["step"]].append(record["correct"])
    return {key: sum(values) / len(values) for key, values in correct.items()}
