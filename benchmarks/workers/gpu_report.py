"""The report of `benchmarks/gpu_check.py`: seconds of a step's parts, tolerances of numbers, and tables."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import pandas as pd

GIB = 2**30
DOCUMENT = Path(__file__).parents[2] / "docs" / "gpu.md"
#: Largest allowed difference to the CPU: of inner products relative to both norms, and of the training gradient's norm
#: relative to itself. Between processes, inner products of large parameters are those of sums (docs/gradients.md).
TOLERANCE = {"products": 1e-3, "products, several processes": 3e-2, "norm": 1e-3}
#: Parts of a step that a run times. DeepSpeed's update, which is not listed here, lies within `step`.
TIMED = ("step", "update", "generation", "synchronisation", "scoring", "preparation")


def check_deepspeed(path: Path) -> None:
    """Refuse the times of a run without its DeepSpeed: on a CPU, accelerate turns DeepSpeed off silently."""
    if "update by DeepSpeed" not in set(pd.read_json(path, lines=True).part):
        raise RuntimeError("trained without DeepSpeed, as plain DDP")


def by_part(path: Path) -> dict[str, float]:
    """Median seconds of each part of a step, without the first step, and the peak of the GPU's allocator in bytes."""
    events = pd.read_json(path, lines=True)
    steps = events.pivot_table(index="step", columns="part", values="seconds", aggfunc="sum", fill_value=0.0)
    steps = steps.reindex(columns=[*TIMED, "update by DeepSpeed"]).fillna(0.0).loc[2:]
    by_deepspeed = steps["update by DeepSpeed"]
    parts = {
        "generation": steps.generation,
        "synchronisation": steps.synchronisation,
        "scoring": steps.scoring,
        "other preparation": steps.preparation - steps.generation - steps.synchronisation - steps.scoring,
        "gradients": steps.step - steps.preparation - by_deepspeed,
        "update": steps["update"] + by_deepspeed,
        "whole step": steps.step + steps["update"],
    }
    return {name: statistics.median(seconds) for name, seconds in parts.items()} | {"peak": int(events.peak.max())}


PARTS = ("whole step", "generation", "synchronisation", "scoring", "other preparation", "gradients", "update")


def right(difference: dict[str, Any]) -> bool:
    """Whether a layout's numbers are within tolerance."""
    if "error" in difference:
        return False
    kind = "products" if difference["processes"] == 1 else "products, several processes"
    return difference["products"] <= TOLERANCE[kind] and difference["norm"] <= TOLERANCE["norm"]


def number_row(layout: str, difference: dict[str, Any]) -> list[str]:
    if "error" in difference:
        return [layout, "failed", difference["error"].replace("|", "/"), ""]
    verdict = "as on the CPU" if right(difference) else "DIFFERS"
    return [layout, verdict, f"{difference['products']:.0e}", f"{difference['norm']:.0e}"]


def time_row(layout: str, time: dict[str, Any]) -> list[str]:
    if "error" in time:
        return [layout, f"failed: {time['error'].replace('|', '/')}", *[""] * (len(PARTS) + 3)]
    own, bare = time["own"], time.get("bare")
    ratios = ["", ""]
    if bare:
        ratios = [f"{own[part] / bare[part]:.2f}" for part in ("whole step", "gradients")]
    gap = f"{time['mean']:.4f}" if "mean" in time else ""
    peak = f"{own['peak'] / GIB:.1f}" if own["peak"] else ""
    return [layout, *(f"{own[part]:.3g}" for part in PARTS), *ratios, gap, peak]


def table(result: dict[str, Any]) -> str:
    """The result as Markdown. If nothing was run: the table that the page already has."""
    if not result:
        begin, end = "<!-- gpu_check -->\n", "\n<!-- /gpu_check -->"
        return DOCUMENT.read_text().partition(begin)[2].partition(end)[0]
    lines = [f"Run on {result['date']}: {result['hardware']}."]
    for shape, found in result["shapes"].items():
        rows = [["numbers", "", "inner products", "gradient's norm"], ["---"] * 4]
        rows += [number_row(name, difference) for name, difference in found["numbers"].items()]
        heads = [*PARTS, "step over TRL's", "gradients over TRL's", "log-prob gap", "peak GiB"]
        more = [["seconds", *heads], ["---"] * (1 + len(heads))]
        more += [time_row(name, time) for name, time in found["times"].items()]
        for part in (rows, more):
            lines += ["", f"{shape}:", "", *(f"| {' | '.join(row)} |" for row in part)]
    if result["left out"]:
        lines += ["", "Left out:", "", *(f"- {name}: {reason}" for name, reason in result["left out"].items())]
    return "\n".join(lines)
