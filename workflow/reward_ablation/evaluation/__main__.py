"""Evaluate a model on one prepared set of problems: `python -m reward_ablation.evaluation --help`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Literal

import pandas as pd
from pydantic import ValidationError

from reward_ablation.models.load import whole_model
from reward_ablation.models.verify import verify_model
from reward_ablation.study.base import Section
from reward_ablation.study.config_errors import describe
from reward_ablation.study.errors import StudyError, one_line_errors, storage_errors
from reward_ablation.study.files import write_parquet
from reward_ablation.study.gpus import claim_gpus
from reward_ablation.study.sections.evaluation import Evaluation
from reward_ablation.study.sections.prompt import Prompt


class EvaluateSpec(Section):
    """What decides the result of an evaluation, beside the model and the problems."""

    evaluation: Evaluation
    prompt: Prompt
    device: Literal["cpu", "cuda"] = "cpu"


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line and evaluate."""
    parser = argparse.ArgumentParser(prog="python -m reward_ablation.evaluation", description=__doc__)
    parser.add_argument("--spec", required=True, help='JSON: {"evaluation": as in the config, "prompt": the same}')
    parser.add_argument("--model", required=True, type=Path, help="folder of a model, or of a LoRA adapter")
    parser.add_argument("--base", type=Path, help="folder of the model under the adapter; not read for a whole model")
    parser.add_argument("--problems", required=True, type=Path, help="prepared set of problems, Parquet")
    parser.add_argument("--output", required=True, type=Path, help="Parquet file of answers")
    args = parser.parse_args(arguments)
    spec = parse_spec(args.spec)
    problems = read_problems(args.problems)
    for folder in {args.model, whole_model(args.model, args.base)}:
        verify_model(folder)
    if spec.device == "cuda":
        claim_gpus(1, "evaluate")

    from reward_ablation.evaluation.evaluate import evaluate  # imports torch: not before the arguments are known good

    with storage_errors(args.output):
        answers = evaluate(spec.evaluation, spec.prompt, spec.device, args.model, args.base, problems)
        write_parquet(answers, args.output)


def parse_spec(text: str) -> EvaluateSpec:
    try:
        return EvaluateSpec.model_validate_json(text)
    except ValidationError as error:
        try:
            written = json.loads(text)
        except ValueError:
            written = None
        raise StudyError(f"--spec: {describe(error, written)}") from error


def read_problems(path: Path) -> pd.DataFrame:
    """Ids, questions and golds of a prepared set."""
    try:
        problems = pd.read_parquet(path, columns=["id", "question", "answer"])
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise StudyError(f"--problems: {path}: not a prepared set of problems ({reason}); see --help") from error
    if problems.empty:
        raise StudyError(f"--problems: {path}: no problems; nothing to evaluate")
    return problems


if __name__ == "__main__":
    with one_line_errors():
        main()
