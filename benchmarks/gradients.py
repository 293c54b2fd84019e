"""The cost of measuring component gradients: this trainer against a bare `trl.GRPOTrainer` and two naive ways.

    python benchmarks/gradients.py --json FILE [--sizes demo-16 wide-16 ...] [--repeats N] [--device cpu|cuda]

A step is TRL's own `training_step` on a recorded batch: forward pass, loss, backward pass, and the trainer's own work.
For this trainer, that work includes similarities, intervals and writing four tables. A step includes neither
generation nor scoring nor the optimiser. A whole step includes generation by transformers and scoring, but not the
optimiser. Both trainers have models with the same weights and see the same tokens. Random weights and tokens suffice,
because they cost the same. Variants take turns, a ratio is taken within a turn, and medians over turns are reported.
Time is CPU time of a process with one thread; on a GPU it is wall time until the GPU has finished. Peak memory is that
of a fresh process for each variant; on a GPU it is that of the allocator. `workers/gradient_steps.py` has the code that
is timed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from workers.gradient_steps import FEW, MANY, Size, spreads

from reward_ablation.config.sections.model import DemoModel
from reward_ablation.models.fetch import fetch

WORKER = Path(__file__).parent / "workers" / "gradient_steps.py"
#: Variants of the training step.
BOTH = ("bare", "on")
MORE = (*BOTH, "off", "many")
ALL = (*MORE, "passes", "backwards")
#: About 27 minutes on one core, and 11 GB. Sizes with a single turn of `BOTH` are timed by the memory's processes.
SIZES = {
    "demo-16": Size("demo", 16, 0, 48, 15, ALL, 10),
    "demo-64": Size("demo", 64, 0, 48, 15, ALL, 10),
    "demo-4x16": Size("demo", 64, 0, 48, 15, MORE, micro_batches=4),
    "wide-16": Size("wide", 16, 32, 96, 3, ALL),
    "wide-64": Size("wide", 64, 32, 160, 1, BOTH),
    "smollm2-16": Size("smollm2", 16, 32, 96, 3, MORE, 2),
    "smollm2-64": Size("smollm2", 64, 32, 96, 1, BOTH, micro_batches=4),
    "smollm2-16-gpu": Size("smollm2", 16, 128, 512, 10, ALL, 3, device="cuda"),
    "smollm2-64-gpu": Size("smollm2", 64, 128, 512, 10, ALL, device="cuda"),
    "qwen-0.5b-16-gpu": Size("qwen-0.5b", 16, 128, 512, 10, ALL, 3, device="cuda"),
    "qwen-0.5b-64-gpu": Size("qwen-0.5b", 64, 128, 512, 10, MORE, micro_batches=4, device="cuda"),
    "qwen-1.5b-16-gpu": Size("qwen-1.5b", 16, 128, 512, 10, MORE, 3, device="cuda"),
}
#: What is reported: group, key, label, goal.
ROWS = [
    ("steps", "on", f"step with Gram matrices of single completions, K = {FEW}, over TRL's", "≤ 1.12"),
    ("steps", "off", "step without measurement, over TRL's", ""),
    ("steps", "on/off", "step with measurement over step without", ""),
    ("steps", "many/few", f"K = {MANY} over K = {FEW}", "no measurable cost"),
    ("steps", "passes", f"TRL's step with {FEW} separate passes, over TRL's step", ""),
    ("steps", "backwards", f"{FEW} backward passes through one forward pass, over TRL's step", ""),
    ("whole", "on", "whole step with generation, over TRL's", "≤ 1.06"),
    ("whole", "tracking", f"whole step that scores and logs {FEW} components instead of one, over TRL's", "≤ 1.01"),
    ("memory", "on", "peak memory, over TRL's", "≤ 1.05"),
    ("memory", "on_added", "memory that the step adds, over what TRL's step adds", ""),
    ("memory", "passes", f"peak memory with {FEW} separate passes and their gradients, over TRL's", ""),
]


def in_process(task: str, name: str, size: Size, demo: Path) -> dict[str, Any]:
    """One task in a process of its own, with one thread."""
    print(f"{name}: {task}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "result.json"
        command = [sys.executable, WORKER, task, "--size", json.dumps(asdict(size)), "--demo", demo, "--json", output]
        settings = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        subprocess.run(command, env={**os.environ, **settings}, check=True, stdout=subprocess.DEVNULL)
        return json.loads(output.read_text())


def measure(name: str, size: Size, demo: Path) -> dict[str, Any]:
    """All measurements of one size."""
    result: dict[str, Any] = {"size": asdict(size)}
    variants = [*BOTH, *(["passes"] if "passes" in size.variants else [])]
    held = {variant: in_process(f"memory-{variant}", name, size, demo) for variant in variants}
    ratios = {variant: [held[variant]["peak_mb"] / held["bare"]["peak_mb"]] for variant in variants}
    added = {variant: held[variant]["peak_mb"] - held[variant]["before_mb"] for variant in variants}
    result["memory"] = {**spreads({**ratios, "on_added": [added["on"] / added["bare"]]}), "mb": held}
    if size.turns == 1 and size.variants == BOTH:
        bare, on = (held[variant]["seconds"] for variant in BOTH)
        result["steps"] = {**spreads({"on": [on / bare]}), "seconds": bare}
    else:
        result["steps"] = in_process("steps", name, size, demo)
    if size.whole_turns:
        result["whole"] = in_process("whole", name, size, demo)
    return result


def benchmark(sizes: dict[str, Size]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        demo = Path(folder) / "demo"
        fetch(DemoModel(samples=300, steps=40), demo / "model.json")  # its quality does not matter here
        return {name: measure(name, size, demo) for name, size in sizes.items()}


def label(size: dict[str, Any]) -> str:
    tokens = f"{size['prompt']} + {size['completion']}" if size["prompt"] else f"up to {size['completion']}"
    gpu = ", GPU" if size["device"] == "cuda" else ""
    parts, count = size["micro_batches"], size["completions"]
    completions = count if parts == 1 else f"{parts} × {count // parts}"
    return f"{size['shape']}{gpu}, {completions} × ({tokens})"


def cell(spread: dict[str, float] | None) -> str:
    if spread is None:
        return ""
    median, lowest, highest = (f"{spread[key]:.2f}" for key in ("median", "lowest", "highest"))
    return median if spread["turns"] == 1 else f"{median} ({lowest} to {highest})"


def table(result: dict[str, Any]) -> str:
    """The result as Markdown."""
    sizes = list(result.values())
    rows = [["", "goal", *(label(size["size"]) for size in sizes)], ["---"] * (2 + len(sizes))]
    for group, key, text, goal in ROWS:
        rows.append([text, goal, *(cell(size.get(group, {}).get(key)) for size in sizes)])
    for group, text in (("steps", "TRL's step, s"), ("whole", "TRL's whole step, s")):
        rows.append([text, "", *(f"{size[group]['seconds']:.3g}" if group in size else "" for size in sizes)])
    peaks = [f"{size['memory']['mb']['bare']['peak_mb']:,.0f}" for size in sizes]
    rows.append(["TRL's peak memory, MB", "", *peaks])
    turns = ", ".join(str(size["steps"]["on"]["turns"]) for size in sizes)
    summary = f"Medians (lowest to highest) of {turns} turns."
    differences = [size["steps"]["difference"] for size in sizes if "difference" in size["steps"]]
    if differences:
        summary += (
            f" The training gradients of the two trainers differ by at most {max(differences):.0e} of their norm."
        )
    return "\n".join([*(f"| {' | '.join(row)} |" for row in rows), "", summary])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="where the numbers go")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES), help="only these")
    parser.add_argument("--repeats", type=int, help="turns of every size, instead of its own number")
    parser.add_argument("--device", choices=["cpu", "cuda"], help="only what runs there; else all that can run here")
    arguments = parser.parse_args()
    sizes = {name: SIZES[name] for name in arguments.sizes if arguments.device in (None, SIZES[name].device)}
    if not torch.cuda.is_available():
        left_out = [name for name, size in sizes.items() if size.device == "cuda"]
        if left_out:
            print(f"no GPU here: left out {', '.join(left_out)}", file=sys.stderr)
        sizes = {name: size for name, size in sizes.items() if name not in left_out}
    if arguments.repeats:
        sizes = {
            name: replace(size, turns=arguments.repeats, whole_turns=arguments.repeats if size.whole_turns else 0)
            for name, size in sizes.items()
        }
    result = benchmark(sizes) if sizes else {}
    arguments.json.write_text(json.dumps(result, indent=2) + "\n")
    print(table(result) if result else "nothing to measure")


if __name__ == "__main__":
    main()
