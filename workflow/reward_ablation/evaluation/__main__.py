"""Evaluate models on one prepared set of problems: `python -m reward_ablation.evaluation --help`."""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from reward_ablation.evaluation.kept import kept_models
from reward_ablation.evaluation.record import Clock
from reward_ablation.models.load import whole_model
from reward_ablation.models.verify import FETCHED, verify_model
from reward_ablation.study.run_spec import EvaluateSpec
from reward_ablation.system.errors import StudyError, one_line_errors, storage_errors
from reward_ablation.system.files import sha256, write_json, write_parquet
from reward_ablation.system.gpus import claim_gpus
from reward_ablation.system.imports import large_imports


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line and evaluate."""
    clock = Clock()
    parser = argparse.ArgumentParser(prog="python -m reward_ablation.evaluation", description=__doc__)
    parser.add_argument("--spec", required=True, help="JSON of how models are judged, and on which prompts")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--model", type=Path, help="folder of a model, or of a LoRA adapter")
    which.add_argument("--kept", type=Path, help="folder of a run: the models that it kept on the way")
    parser.add_argument("--base", type=Path, help="folder of the model under the adapter; not read for a whole model")
    parser.add_argument("--problems", required=True, type=Path, help="prepared set of problems, Parquet")
    parser.add_argument("--output", required=True, type=Path, help="Parquet file of answers")
    parser.add_argument("--record", type=Path, help="JSON file: by what the answers were made, and in which time")
    args = parser.parse_args(arguments)
    spec = EvaluateSpec.parse(args.spec)
    problems = read_problems(args.problems)
    inputs = digests_of({"problems": args.problems, "model": args.model / FETCHED if args.model else None})
    kept = kept_models(args.kept) if args.kept else {}
    models = list(kept.values()) if args.kept else [args.model]
    for folder in {folder for model in models for folder in (model, whole_model(model, args.base))}:
        verify_model(folder)
    if spec.device == "cuda":
        claim_gpus(1, "evaluate")

    with large_imports():  # not before the arguments are known good
        from reward_ablation.evaluation.evaluate import evaluate, evaluate_kept

    with storage_errors(args.output):
        if args.kept:
            answers = evaluate_kept(spec, kept, args.base, problems)
        else:
            answers = evaluate(spec, args.model, args.base, problems)
        write_parquet(answers, args.output)
        if args.record:
            write_json(clock.record(spec, inputs, models, answers, args.output), args.record)


def digests_of(files: dict[str, Path | None]) -> dict[str, str]:
    """SHA-256 of those of the files that are there, by name."""
    return {name: sha256(path) for name, path in files.items() if path is not None and path.is_file()}


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
