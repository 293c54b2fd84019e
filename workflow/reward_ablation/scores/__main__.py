"""Scoring of stored answers by the study's own metrics: `python -m reward_ablation.scores --help`.

The rule `score` runs it for each file of answers, where the config has `evaluation.metrics`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from reward_ablation.data.prepared import further_columns_of, read_prepared
from reward_ablation.rewards.load import load_component
from reward_ablation.rewards.request_records import asking
from reward_ablation.rewards.scoring import RewardFunction
from reward_ablation.scores.models import CountsCut, load_models
from reward_ablation.scores.requests import recording
from reward_ablation.scores.score import score_answers
from reward_ablation.spec.run import ScoresSpec
from reward_ablation.study.reward_models import FUNCTION
from reward_ablation.study.scoring import scoring_code
from reward_ablation.study.specs_of_config import check_unchanged
from reward_ablation.system.digests import digest_where_present
from reward_ablation.system.errors import StudyError, one_line_errors, storage_errors
from reward_ablation.system.files import write_parquet


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line and score."""
    parser = argparse.ArgumentParser(prog="python -m reward_ablation.scores", description=__doc__)
    parser.add_argument("--spec", required=True, help="JSON of the metrics")
    parser.add_argument("--answers", required=True, type=Path, help="Parquet file of answers")
    parser.add_argument("--problems", required=True, type=Path, help="prepared set of problems, Parquet")
    parser.add_argument("--output", required=True, type=Path, help="Parquet file of scores, one row an answer")
    parser.add_argument("--parameters", default="{}", help="JSON: parameters by metric that decide no score")
    parser.add_argument("--reward-models", default="{}", help="JSON: folder of each reward model")
    parser.add_argument("--judge", type=Path, help="folder of kept answers of judges, which all runs share")
    args = parser.parse_args(arguments)
    spec, others = ScoresSpec.parse(args.spec), json.loads(args.parameters)
    digest = digest_where_present(args.answers)
    answers, problems = read(args.answers), read_prepared(args.problems)
    metrics = load_metrics(spec, others, further_columns_of(args.problems))
    load_models(spec, others, {name: Path(folder) for name, folder in json.loads(args.reward_models).items()})
    code = scoring_code(spec)
    with storage_errors(args.output), recording(args.output, code) as counts, asking(args.judge, counts):
        scores = score_answers(answers, problems, metrics)
        if digest_where_present(args.answers) != digest:  # by a start after that of this job, whose Snakemake died
            raise StudyError(f"{args.answers}: were made again while they were scored; run the workflow again")
        write_parquet(pa.Table.from_pandas(scores, preserve_index=False), args.output)
    for function in metrics.values():
        if isinstance(function, CountsCut):
            function.tell()


def load_metrics(
    spec: ScoresSpec, others: dict[str, dict[str, Any]], further: Sequence[str]
) -> dict[str, RewardFunction | CountsCut]:
    """Load the function of each metric with all of its parameters, by name."""
    loaded = partial(load_component, root=Path.cwd(), section="evaluation.metrics", further=further)
    functions: dict[str, RewardFunction | CountsCut] = {}
    for name, metric in spec.metrics.items():
        parameters = {**metric.parameters, **others.get(name, {})}
        function = loaded(metric.function, parameters, name=name)
        check_unchanged(metric, parameters, Path.cwd())
        functions[name] = CountsCut(name, function) if metric.function == FUNCTION else function
    return functions


def read(path: Path) -> pd.DataFrame:
    """Read a Parquet file of the workflow; StudyError where this fails."""
    try:
        return pd.read_parquet(path)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise StudyError(f"{path}: cannot be read ({reason}); delete it and run the workflow again") from error


if __name__ == "__main__":
    with one_line_errors():
        main()
