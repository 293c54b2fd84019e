"""Command that evaluates a model, or all models of a run, on prepared sets.

The rules `evaluate_base` and `evaluate` run it. It makes only the answers that are missing.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pandas as pd

from reward_ablation.evaluation.kept import kept_models
from reward_ablation.evaluation.stored import Answers, Part
from reward_ablation.models.load import whole_model
from reward_ablation.models.verify import FETCHED, check_trained, verify_model
from reward_ablation.spec.run import EvaluateSpec
from reward_ablation.study.answers_record import Making
from reward_ablation.study.run_folder import GOES_ON, LOCK, MODEL, RECORD, UNFINISHED, record_divergence
from reward_ablation.system.digests import read_object
from reward_ablation.system.errors import NotFinite, StudyError, one_line_errors, storage_errors
from reward_ablation.system.files import sha256
from reward_ablation.system.gpus import claim_gpus
from reward_ablation.system.imports import large_imports
from reward_ablation.system.locks import wait_for


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and evaluate."""
    started = time.perf_counter()
    parser = argparse.ArgumentParser(prog="python -m reward_ablation.evaluation", description=__doc__)
    parser.add_argument("--spec", required=True, help="JSON of how models are judged, and on which prompts")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--model", type=Path, help="folder of a model, or of a LoRA adapter")
    which.add_argument("--run", type=Path, help="folder of a run: its final model")
    parser.add_argument("--kept", action="store_true", help="with --run: also the models that it kept on the way")
    parser.add_argument("--base", type=Path, help="folder of the model under adapters; not read for a whole model")
    parser.add_argument("--problems", required=True, type=Path, nargs="+", help="prepared sets of problems, Parquet")
    parser.add_argument("--answers", required=True, type=Path, help="folder for the answers, a file for each set")
    parser.add_argument("--scores", type=Path, help="folder of all scores: those of replaced answers are removed")
    parser.add_argument("--any-code", action="store_true", help="keep answers that other code, or data, made")
    args = parser.parse_args(arguments)
    spec = EvaluateSpec.parse(args.spec)
    final = args.model or args.run / MODEL
    with storage_errors(args.answers), wait_for(args.answers / UNFINISHED / LOCK, "evaluate"):
        sets = {path.stem: read_problems(path) for path in args.problems}
        kept = kept_models(args.run) if args.run and args.kept else None
        answers = Answers(spec, args.answers, final, kept, makings(args), scores_of(args), started)
        if answers.are_complete():
            print(f"evaluate: the answers in {args.answers} are made already; to make them again, delete them")
        else:
            make(answers, args.base, sets, args.run)
            answers.put_in_place()
        answers.remove_unfinished()


def makings(args: argparse.Namespace) -> dict[str, Making]:
    """What the answers to each evaluation set depend on: the problems, and the run or the model."""
    run_record = args.run / RECORD if args.run else None
    model = {"run": run_record} if run_record else {"model": args.model / FETCHED}
    inputs = {name: sha256(path) for name, path in model.items() if path.is_file()}
    return {
        path.stem: Making({**inputs, "problems": sha256(path)}, run_record, args.any_code) for path in args.problems
    }


def scores_of(args: argparse.Namespace) -> list[Path]:
    """Folders of the scores of these answers: `{scores}/{key of evaluation}-{key of metrics}/{model}`."""
    if args.scores is None:
        return []
    key, *model = args.answers.relative_to(args.scores.with_name("evaluation")).parts
    return [folder.joinpath(*model) for folder in sorted(args.scores.glob(f"{key}-*"))]


def make(answers: Answers, base: Path | None, sets: Mapping[str, pd.DataFrame], run: Path | None = None) -> None:
    """Generate and grade the answers that are missing, model by model; refuse models of the `run` that diverged."""
    missing = answers.to_make()
    for folder in {folder for part in missing for folder in (part.model, whole_model(part.model, base))}:
        verify_model(folder)
    if missing and answers.spec.device == "cuda":
        claim_gpus(1, "evaluate")

    with large_imports():  # late, so that bad arguments are refused at once
        from reward_ablation.evaluation.evaluate import Evaluator

    for part in {part.model: part for part in missing}.values():
        with refused_if_not_finite(part, run):
            check_trained(part.model)
    asked = {name: sets[name] for name in dict.fromkeys(part.dataset for part in missing)}
    evaluator = Evaluator(answers.spec, base, asked)
    for number, part in enumerate(missing, start=1):
        model = "final model" if part.step is None else f"model of step {part.step}"
        print(f"{model} on {part.dataset}: {number} of {len(missing)}", flush=True)
        with refused_if_not_finite(part, run):
            table = evaluator.answers(part.model, part.dataset)
        answers.store(part, table)


@contextmanager
def refused_if_not_finite(part: Part, run: Path | None) -> Iterator[None]:
    """Refuse a model whose weights or logits are not finite. If it is a run's, record that the run diverged."""
    try:
        yield
    except NotFinite as error:
        if run is None or not (run / RECORD).is_file():
            raise StudyError(f"{part.model}: {error}; such a model cannot be evaluated; take another one") from None
        record = read_object(run / RECORD, f"delete {run} and run the workflow again, which trains it again")
        step = part.step or record.get("steps", 0)
        record_divergence(run, record, step, str(error))
        raise StudyError(
            f"{part.model}: diverged at step {step}: {error}; such a model is not evaluated; {GOES_ON}"
        ) from None


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
