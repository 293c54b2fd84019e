"""Tables of methods of combination: what they did in their arms, and would have done with the baseline's completions.

Such a method makes one advantage of the scores of an arm's components (key `combine`). The rule `tables_combination`
calls `write`, in studies that have an arm with a method other than TRL's own two. Axes of arrays: Q quantities, K
components, S seeds, T steps.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from reward_ablation.analysis.gradients.methods_offline import OfflineComparison, method_of_arm, methods_offline
from reward_ablation.analysis.gradients.seed_intervals import means_over_steps_and_seeds, over_seeds
from reward_ablation.analysis.reading import read_parquet
from reward_ablation.analysis.runs import read_rollouts, read_runs, rerun_of
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.tables import COUNT, NUMBER, TEXT, Parts, columns, write_tables
from reward_ablation.combination.normalisation import nan_mean
from reward_ablation.study.run_folder import RECORD
from reward_ablation.system.digests import check_files
from reward_ablation.system.errors import StudyError

#: Quantities of the table method_weights, columns of `weights.parquet` that `combination.of_run.SCHEMA` explains; and
#: the ranges that the intervals of some of them are clipped to.
QUANTITIES = ("weight", "conflicts", "dead", "advantage_rms")
RANGES = {"conflicts": (0.0, 1.0), "dead": (0.0, 1.0), "advantage_rms": (0.0, np.inf)}

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
    # estimate: root mean square of the advantages; ratio: of it to the baseline's, over the seeds that both have.
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

#: What low and high are in rows of one step.
RANGE = "range of seeds"

#: Most points along the steps of a run, a free choice; in longer runs neighbouring steps are averaged.
MOST_STEPS = 500

#: Bounds of the replay at the baseline's completions: most arms, and most measured steps of a run. Free choices.
MOST_ARMS, MOST_MEASURED = 100, 40


def write(study: StudyFile, options: Namespace) -> None:
    """Write the tables of methods of combination: from weights and rollouts of runs, and the baseline's gradients."""
    write_tables(combination_tables(study, options.study.parent), SCHEMAS, options.output)


def combination_tables(study: StudyFile, root: Path) -> Parts:
    """Parts of the tables of `SCHEMAS`. Files that all runs have are checked first, weights of some arms when read."""
    records = read_runs(study, root, ["rollouts.parquet", "gradients.parquet"])
    squares: dict[str, dict[int, pd.Series]] = {}
    for arm in study.arm_names:
        runs, logs = study.runs_of(arm), {}
        if runs:
            squares[arm] = mean_squares(read_rollouts(runs, root, ["step", "advantage"]))
        for run in runs if runs and runs[0].spec.combine else []:
            folder = root / run.folder
            check_files(folder, records[run.folder].files, ["weights.parquet"], RECORD, rerun_of(folder))
            logs[run.seed] = read_parquet(folder / "weights.parquet")
        if logs:
            yield "method_weights", method_weights(logs, arm, study.confidence)
    yield "advantage_size", advantage_size(squares, study.baseline, study.confidence)
    comparison = offline(study, root)
    if comparison is not None:
        estimates = comparison.estimates
        yield "methods_offline", estimates.assign(arm=study.baseline, by_weights=by_weights(estimates, study))


def method_weights(weights: Mapping[int, pd.DataFrame], arm: str, confidence: float) -> pd.DataFrame:
    """Means over seeds of `QUANTITIES`: by step with the range of the seeds, then of the run (step null)."""
    logs = [weights[seed] for seed in sorted(weights)]
    components = list(dict.fromkeys(name for log in logs for name in log["component"]))
    steps = np.unique(np.concatenate([log["step"].to_numpy() for log in logs]))
    values = np.full((len(QUANTITIES), len(components), len(logs), len(steps)), np.nan)
    for number, log in enumerate(logs):
        # A step may have several generations, each with a row.
        mean = log[[*QUANTITIES]].astype(float).groupby([log["component"], log["step"]], sort=False).mean()
        places = [components.index(name) for name in mean.index.get_level_values("component")]
        values[:, places, number, np.searchsorted(steps, mean.index.get_level_values("step"))] = mean.to_numpy().T
    of_steps = _by_step(values, steps, components)
    return pd.concat([of_steps, _whole_run(values, components, confidence)]).assign(arm=arm, seeds=len(logs))


def _by_step(values: np.ndarray, steps: np.ndarray, components: list[str]) -> pd.DataFrame:
    """Rows of points along the steps, from (Q, K, S, T) values; the step of a point is the last that it averages."""
    width = -(-len(steps) // MOST_STEPS)
    edges = range(0, len(steps), width)
    # (Q, points, K, S)
    points = np.stack([nan_mean(values[..., edge : edge + width], -1)[..., 0] for edge in edges], axis=1)
    last = [steps[min(edge + width, len(steps)) - 1] for edge in edges]
    unknown = np.isnan(points)
    ranged = (~unknown).sum(axis=-1) > 1
    columns = {"step": np.repeat(last, len(components)), "component": np.tile(components, len(last))}
    low, high = np.where(unknown, np.inf, points).min(axis=-1), np.where(unknown, -np.inf, points).max(axis=-1)
    for ending, of_all in (
        ("", nan_mean(points, -1)[..., 0]),
        ("_low", np.where(ranged, low, np.nan)),
        ("_high", np.where(ranged, high, np.nan)),
    ):
        columns |= {f"{name}{ending}": of_one.ravel() for name, of_one in zip(QUANTITIES, of_all, strict=True)}
    return pd.DataFrame(columns).assign(interval=RANGE if values.shape[2] > 1 else None).astype({"step": "Int64"})


def _whole_run(values: np.ndarray, components: list[str], confidence: float) -> pd.DataFrame:
    """Rows of the whole run, from (Q, K, S, T) values."""
    columns: dict[str, object] = {"component": components}
    for name, of_quantity in zip(QUANTITIES, values, strict=True):
        means = means_over_steps_and_seeds(of_quantity, confidence).clipped(*RANGES.get(name, (-np.inf, np.inf)))
        columns |= {name: means.estimate, f"{name}_low": means.low, f"{name}_high": means.high}
    return pd.DataFrame(columns).assign(step=pd.array([None] * len(components), dtype="Int64"), interval=means.interval)


def mean_squares(rollouts: pd.DataFrame) -> dict[int, pd.Series]:
    """Mean square of the advantages of all completions of a step, by seed and step."""
    squares = rollouts["advantage"].astype(float).pow(2)
    means = squares.groupby([rollouts["seed"], rollouts["step"]], sort=True).mean()
    return {seed: means.loc[seed] for seed in rollouts["seed"].unique().tolist()}


def advantage_size(squares: Mapping[str, Mapping[int, pd.Series]], baseline: str, confidence: float) -> pd.DataFrame:
    """Root mean square of arms' advantages, mean over seeds, from `mean_squares`; its ratio to the baseline's."""
    # The ratio is the geometric mean over the seeds that both have; its interval is computed for the logarithm.
    rows = []
    for arm, by_seed in squares.items():
        values, influence = _sizes(by_seed, sorted(by_seed))
        # Relative influences times the size are influences on it; adding the size changes no spread.
        size = over_seeds(values[None], (values[:, None] * (1 + influence))[None], confidence).clipped(0, np.inf)
        rows.append(
            {
                "arm": arm,
                **{name: column[0] for name, column in size._asdict().items()},
                **_ratio(by_seed, squares.get(baseline, {}), confidence),
                "seeds": len(by_seed),
                "steps": max(len(of_seed) for of_seed in by_seed.values()),
            }
        )
    return pd.DataFrame(rows)


def _sizes(by_seed: Mapping[int, pd.Series], seeds: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Root mean squares, (S,), and relative influences of steps on them, (S, T), by the delta method; NaN without."""
    table = pd.DataFrame({seed: by_seed[seed] for seed in seeds}).to_numpy(dtype=float).T
    means = np.nanmean(table, axis=1) if table.size else np.full(len(seeds), np.nan)
    relative = np.divide(table, means[:, None], out=np.ones(table.shape), where=means[:, None] > 0)
    return np.sqrt(means), (relative - 1) / 2  # a square root halves a relative deviation


def _ratio(own: Mapping[int, pd.Series], other: Mapping[int, pd.Series], confidence: float) -> dict[str, float]:
    """Ratio of sizes with its interval; NaN where the arms share no seed, or a size is 0."""
    names = ("ratio", "ratio_low", "ratio_high")
    seeds = [seed for seed in sorted(own) if seed in other]
    (values, own_influence), (others, other_influence) = _sizes(own, seeds), _sizes(other, seeds)
    if not seeds or not (values > 0).all() or not (others > 0).all():
        return dict.fromkeys(names, np.nan)
    logarithms = np.log(values / others)
    # Steps of both arms are paired, as they have the same prompts. Otherwise one seed alone gives no interval.
    paired = own_influence.shape == other_influence.shape
    influence = logarithms[:, None] + (own_influence - other_influence if paired else np.full((len(seeds), 1), np.nan))
    ratio = over_seeds(logarithms[None], influence[None], confidence)
    return {name: float(np.exp(column[0])) for name, column in zip(names, ratio[:3], strict=True)}


def by_weights(estimates: pd.DataFrame, study: StudyFile) -> list[float]:
    """The column `by_weights` of `methods_offline` (see `SCHEMAS`); NaN in rows whose quantity is no gain."""
    shares = {}
    for arm in {*estimates["method"], study.baseline}:
        weights = study.runs_of(arm)[0].spec.weights
        total = sum(map(abs, weights.values()))
        shares[arm] = {name: weight / total for name, weight in weights.items()} if total else {}
    own = shares[study.baseline]
    rows = zip(estimates["method"], estimates["quantity"], estimates["component"], strict=True)
    return [
        shares[method].get(name, 0.0) - own.get(name, 0.0) if quantity == "gain" else np.nan
        for method, quantity, name in rows
    ]


def offline(study: StudyFile, root: Path) -> OfflineComparison | None:
    """What the arms' combinations would have done with the baseline's completions; None if no step can be compared."""
    methods = {}
    runs = study.runs_of(study.baseline)
    scored = set(runs[0].spec.components) if runs else set()
    for arm in study.arm_names:
        of_arm = study.runs_of(arm)
        method = method_of_arm(of_arm[0].trained_spec) if of_arm else None
        if method is None:
            print(f"methods_offline: {arm} left out: it has no runs")
        elif not method.weights:
            print(f"methods_offline: {arm} left out: it trains on no component, as all of its weights are 0")
        elif not scored.issuperset(method.weights):
            print(f"methods_offline: {arm} left out: it has components that do not score the runs of {study.baseline}")
        else:
            methods[arm] = method
    if len(methods) > MOST_ARMS:
        first = sorted(methods, key=lambda arm: arm not in study.arms_with_methods)[:MOST_ARMS]
        methods = {arm: method for arm, method in methods.items() if arm in first}
        print(f"methods_offline: only {MOST_ARMS} arms are compared; arms with a method come first")
    folders = [root / run.folder for run in runs]
    try:
        comparison = methods_offline(folders, methods, confidence=study.confidence, most_steps=MOST_MEASURED)
    except StudyError as error:
        print(f"methods_offline: empty, since no combination can be compared: {error}")
        return None
    for reason, steps in comparison.left_out.items():
        print(f"methods_offline: {steps} measured steps left out: {reason}")
    return comparison if comparison.steps else None
