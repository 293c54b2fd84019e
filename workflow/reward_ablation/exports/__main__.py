"""Write a run's results in the layout of another system: `python -m reward_ablation.exports LAYOUT --help`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from reward_ablation.analysis.reading import read_parquet
from reward_ablation.exports import rldynamics, simple_grpo
from reward_ablation.exports.prompts import prompt_texts
from reward_ablation.exports.runs import read_finished
from reward_ablation.study.run_spec import ArmSpec
from reward_ablation.system.errors import one_line_errors, storage_errors
from reward_ablation.system.files import sha256, write_json


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and write."""
    parser = argparse.ArgumentParser(prog="python -m reward_ablation.exports", description=__doc__)
    layouts = parser.add_subparsers(dest="layout", required=True)
    rewards = layouts.add_parser("rldynamics", help="all_rewards.json and gradients_step_N.npz")
    rewards.add_argument("--metadata", required=True, type=json.loads, help='JSON: {"model": ..., "dataset": ...}')
    lines = layouts.add_parser("simple_grpo", help="rollouts.jsonl, eval_*.jsonl and evaluation.json")
    lines.add_argument("--model", type=Path, required=True, help="folder of the base model, for its tokenizer")
    lines.add_argument("--problems", type=Path, required=True, help="prepared training set")
    lines.add_argument("--answer-format", required=True, help="where strict accuracy looks for the answer")
    for name, what in (("questions", "prepared evaluation sets"), ("before", "answers of the base model to each")):
        lines.add_argument(f"--{name}", type=Path, nargs="+", required=True, metavar="PARQUET", help=what)
    lines.add_argument("--after", type=Path, nargs="+", required=True, metavar="PARQUET", help="the run's answers")
    for layout in (rewards, lines):
        layout.add_argument("--run-dir", type=Path, required=True, help="folder of a finished run")
        layout.add_argument("--output", type=Path, required=True, help="folder of the files")
    options = parser.parse_args(arguments)
    with storage_errors(options.output):
        if options.layout == "rldynamics":
            rldynamics.export(options.run_dir, options.metadata, options.output / rldynamics.REWARDS)
        else:
            export_simple_grpo(options)


def export_simple_grpo(options: argparse.Namespace) -> None:
    """Rollouts, answers before and after, and last their summary."""
    spec = ArmSpec.read(read_finished(options.run_dir)["spec"], f"{options.run_dir}/run.json: spec")
    problems = read_problems(options.problems)
    simple_grpo.export_rollouts(
        options.run_dir,
        prompt_texts(by_id(problems, "question"), spec, options.model),
        by_id(problems, "answer"),
        sha256(options.problems),
        options.answer_format,
        options.output / simple_grpo.ROLLOUTS,
    )
    summary: dict[str, dict[str, dict[str, float]]] = {"before": {}, "after": {}}
    for path, *answers in zip(options.questions, options.before, options.after, strict=True):
        questions, dataset = read_problems(path), path.stem.rpartition("-")[0]
        prompts, golds = prompt_texts(by_id(questions, "question"), spec, options.model), by_id(questions, "answer")
        for moment, file in zip(summary, answers, strict=True):
            lines, summary[moment][dataset] = simple_grpo.answer_lines(file, prompts, golds)
            simple_grpo.write_lines(lines, options.output / simple_grpo.evaluation_file(moment, dataset))
    write_json(summary, options.output / simple_grpo.EVALUATION)


def read_problems(path: Path) -> pd.DataFrame:
    """Ids, questions and golds of a prepared set."""
    return read_parquet(path, ["id", "question", "answer"])


def by_id(problems: pd.DataFrame, column: str) -> dict[str, str]:
    """A column by problem id."""
    return dict(zip(problems["id"], problems[column], strict=True))


if __name__ == "__main__":
    with one_line_errors():
        main()
