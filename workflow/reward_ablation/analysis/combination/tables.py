"""Tables of methods of combination, from what all runs of a study logged."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import numpy as np
import pandas as pd

from reward_ablation.analysis.combination.advantage_size import advantage_size, mean_squares
from reward_ablation.analysis.combination.method_weights import QUANTITIES, lag_cosine, method_weights
from reward_ablation.analysis.gradients.methods_offline import OfflineComparison, methods_offline
from reward_ablation.analysis.gradients.replay import method_of_arm
from reward_ablation.analysis.reading import read_parquet
from reward_ablation.analysis.runs import read_rollouts, read_runs, rerun_of
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.tables import COUNT, NUMBER, TEXT, Parts, columns, write_tables
from reward_ablation.study.run_folder import RECORD
from reward_ablation.system.digests import check_files
from reward_ablation.system.errors import StudyError

#: Most measured steps of a run at which combinations are compared.
MOST_STEPS = 40

SCHEMAS = {
    # step: null in rows of the whole run; interval: what low and high are, the range of the seeds or an interval.
    "method_weights": columns(
        (TEXT, "arm"),
        (COUNT, "step"),
        (TEXT, "component"),
        *((NUMBER, f"{name} {name}_low {name}_high") for name in QUANTITIES),
        (COUNT, "seeds"),
        (TEXT, "interval"),
    ),
    # ratio: of the estimate to that of the study's baseline.
    "advantage_size": columns(
        (TEXT, "arm"),
        (NUMBER, "estimate low high ratio ratio_low ratio_high"),
        (COUNT, "seeds steps"),
        (TEXT, "interval"),
    ),
    # arm: whose completions are combined; method: the arm whose combination is applied to them; by_weights: what the
    # weights alone say of a gain, the component's share of the method's weights less its share of the arm's own.
    "methods_offline": columns(
        (TEXT, "arm method quantity component"),
        (NUMBER, "estimate low high by_weights"),
        (COUNT, "seeds steps"),
        (TEXT, "interval"),
    ),
}

#: Most arms whose combinations are compared at the baseline's completions.
MOST_ARMS = 100


def write(study: StudyFile, options: Namespace) -> None:
    """Write the tables of methods of combination, from the weights, rollouts and gradients of all runs."""
    write_tables(combination_tables(study, options.study.parent), SCHEMAS, options.output)


def combination_tables(study: StudyFile, root: Path) -> Parts:
    """Parts of the tables of `SCHEMAS`. The runs' records and the files that are read are checked first."""
    records = read_runs(study, root, ["rollouts.parquet", "gradients.parquet"])
    squares: dict[str, dict[int, pd.Series]] = {}
    for arm in study.arm_names:
        runs, logs = study.runs_of(arm), {}
        if runs:
            squares[arm] = mean_squares(read_rollouts(runs, root, ["step", "advantage"]))
        for run in runs if runs and runs[0].spec.combine else []:
            folder = root / run.folder
            check_files(folder, records[run.folder].files, ["weights.parquet"], RECORD, rerun_of(folder))
            log = read_parquet(folder / "weights.parquet")
            logs[run.seed] = log.assign(lag_cosine=lag_cosine(folder, run.trained_spec, log))
        if logs:
            yield "method_weights", method_weights(logs, arm, study.confidence)
    yield "advantage_size", advantage_size(squares, study.baseline, study.confidence)
    answers = offline(study, root)
    if answers is not None:
        estimates = answers.estimates
        yield "methods_offline", estimates.assign(arm=study.baseline, by_weights=by_weights(estimates, study))


def by_weights(estimates: pd.DataFrame, study: StudyFile) -> list[float]:
    """The column `by_weights` of rows of `methods_offline`; NaN where the quantity is no gain."""
    shares = {}
    for arm in {*estimates["method"], study.baseline}:
        weights = study.runs_of(arm)[0].spec.weights
        size = sum(map(abs, weights.values()))
        shares[arm] = {name: weight / size for name, weight in weights.items()} if size else {}
    own = shares[study.baseline]
    rows = zip(estimates["method"], estimates["quantity"], estimates["component"], strict=True)
    return [
        shares[method].get(name, 0.0) - own.get(name, 0.0) if quantity == "gain" else np.nan
        for method, quantity, name in rows
    ]


def offline(study: StudyFile, root: Path) -> OfflineComparison | None:
    """What the arms' combinations would have done at the baseline's completions; None where that is not known.

    An arm is left out if one of its components does not score the baseline's runs; the log names such arms.
    """
    methods = {}
    runs = study.runs_of(study.baseline)
    scored = set(runs[0].spec.components) if runs else set()
    for arm in study.arm_names:
        of_arm = study.runs_of(arm)
        method = method_of_arm(of_arm[0].trained_spec) if of_arm else None
        if method is None or not method.weights or not scored.issuperset(method.weights):
            print(f"methods_offline: {arm} left out: it has components that do not score the runs of {study.baseline}")
        else:
            methods[arm] = method
    if len(methods) > MOST_ARMS:
        first = sorted(methods, key=lambda arm: arm not in study.arms_with_methods)[:MOST_ARMS]
        methods = {arm: method for arm, method in methods.items() if arm in first}
        print(f"methods_offline: only {MOST_ARMS} arms are compared; arms with a method come first")
    try:
        answers = methods_offline(
            [root / run.folder for run in runs], methods, confidence=study.confidence, most=MOST_STEPS
        )
    except StudyError as error:
        print(f"methods_offline: empty, since no combination can be compared: {error}")
        return None
    for reason, steps in answers.left_out.items():
        print(f"methods_offline: {steps} measured steps left out: {reason}")
    return answers if answers.steps else None
