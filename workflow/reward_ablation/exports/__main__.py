"""Command that writes the results of a run in the layout of another system: `python -m reward_ablation.exports LAYOUT`.

The rules `export_rldynamics` and `export_simple_grpo` run it for each run, in studies whose config has `exports`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from reward_ablation.exports import rldynamics, simple_grpo
from reward_ablation.system.errors import one_line_errors, storage_errors


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and write the files."""
    parser = argparse.ArgumentParser(prog="python -m reward_ablation.exports", description=__doc__)
    layouts = parser.add_subparsers(dest="layout", required=True)
    rewards = layouts.add_parser("rldynamics", help="all_rewards.json and gradients_step_N.npz")
    rewards.add_argument("--metadata", required=True, type=json.loads, help='JSON: {"model": ..., "dataset": ...}')
    lines = layouts.add_parser("simple_grpo", help="rollouts.jsonl, eval_*.jsonl and evaluation.json")
    lines.add_argument("--model", type=Path, required=True, help="folder of the base model, for its tokenizer")
    lines.add_argument("--problems", type=Path, required=True, help="prepared training set")
    lines.add_argument("--answer-format", required=True, help="where strict accuracy looks for the answer")
    lines.add_argument("--datasets", nargs="+", required=True, metavar="NAME", help="names of the evaluation sets")
    files = {
        "questions": "prepared evaluation sets",
        "before": "answers of the base model to each",
        "after": "the run's answers to each",
    }
    for name, words in files.items():
        lines.add_argument(f"--{name}", type=Path, nargs="+", required=True, metavar="PARQUET", help=words)
    for layout in (rewards, lines):
        layout.add_argument("--run-dir", type=Path, required=True, help="folder of a finished run")
        layout.add_argument("--output", type=Path, required=True, help="folder of the files")
    options = parser.parse_args(arguments)
    with storage_errors(options.output):
        if options.layout == "rldynamics":
            rldynamics.export(options.run_dir, options.metadata, options.output / rldynamics.REWARDS)
        else:
            simple_grpo.export(
                options.run_dir,
                options.model,
                options.problems,
                list(zip(options.datasets, options.questions, options.before, options.after, strict=True)),
                options.answer_format,
                options.output,
            )


if __name__ == "__main__":
    with one_line_errors():
        main()
