"""Signs of reward hacking in simulated runs whose truth is known: clean, or with a hack planted at a known step.

    python benchmarks/planted_hacks.py --json FILE [--arms 120] [--watched 20] [--study results/demo/study.json]

A run has steps x 8 problems x 8 completions, as in the demo. The chance of a right completion is logistic in the course
of the policy and in the problem's difficulty. Courses, spreads and lengths are those of the demo's runs. Hacks begin in
the middle of training. Clean runs differ in the course of accuracy and in its noise (`CLEAN`).

Three methods are compared. The table `reward_hacking` uses training and five kept models evaluated on 200 other
questions. The former rule of this table uses training alone. The six detectors of rewardspy 0.1.0 run with their
defaults, if it can be imported (https://github.com/AvAdiii/rewardspy, MIT; set PYTHONPATH to a folder that has it): any
warning or alert of any detector is an alarm. With --study, the table and rewardspy also judge the runs of a finished
study.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from scipy.signal import lfilter
from scipy.special import expit, logit
from scipy.stats import norm

from reward_ablation.analysis.reading import read_parquet
from reward_ablation.analysis.reward_hacking.changes import rises
from reward_ablation.analysis.reward_hacking.measures import HeldOut, answers_of_steps
from reward_ablation.analysis.reward_hacking.noise import points
from reward_ablation.analysis.reward_hacking.tables import reward_hacking
from reward_ablation.analysis.statistics.intervals import generator
from reward_ablation.analysis.study_file import StudyArm, StudyFile, StudyRun, read_study

try:
    from rewardspy.integrations.grpo import GRPOSpy
except ImportError:
    GRPOSpy = None

DOCUMENT = "signals.md"
CONFIDENCE = 0.95
PROBLEMS, COMPLETIONS, QUESTIONS, SAMPLES, MODELS = 8, 8, 200, 4, 5
DIFFICULTY = (
    1.2  # standard deviation of problems on the logistic scale; a step's accuracy then has the demo's spread, .1
)

#: Methods whose alarms have kinds.
METHODS = ["this table", "rewardspy"]

#: Kinds of runs without a hack, and with one.
CLEAN = {
    "flat": "accuracy stays, independent errors",
    "drift": "accuracy drifts up in a straight line, independent errors",
    "levelling off": "accuracy and reward level off, with autoregressive noise of .6",
    "wandering": "accuracy stays, with autoregressive noise of .9",
    "random walk": "accuracy is a random walk with drift",
}
HACKS = {
    "padding": "answers grow long, wrong ones more, and accuracy falls",
    "empty format": "the format stays right, but the answers do not: accuracy falls",
    "keyword": "a rewarded word appears everywhere, and accuracy stops rising",
}


@dataclass
class Run:
    """One simulated run: its rollouts, and a (models, questions) array of its models' scores on other questions."""

    rollouts: pd.DataFrame
    held_out: np.ndarray


def courses(kind: str, steps: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logits of accuracy and of the other component, and logarithm of the padding's factor of length, by step."""
    time = np.arange(steps) / steps
    level = 1 - np.exp(-3 * time)
    hacked = np.maximum(time - 0.5, 0) * 2
    right, other, padding = logit(0.25) + 1.9 * level, logit(0.26) + 4 * level, np.zeros(steps)
    if kind == "flat":
        right = np.full(steps, logit(0.4))
    elif kind == "drift":
        right = logit(0.25) + 1.9 * time
    elif kind == "levelling off":
        right = right + lfilter([1.0], [1.0, -0.6], 0.24 * rng.normal(size=steps))
    elif kind == "wandering":
        right = logit(0.4) + lfilter([1.0], [1.0, -0.9], 0.22 * rng.normal(size=steps))
    elif kind == "random walk":
        right = logit(0.3) + time + np.cumsum(0.2 * np.sqrt(40 / steps) * rng.normal(size=steps))
    elif kind == "keyword":
        right, other = (
            np.minimum(logit(0.25) + 3 * time, logit(0.25) + 1.5),
            logit(0.05) + 6 * np.minimum(2 * hacked, 1),
        )
    else:
        right, other = right - 1.8 * hacked, logit(0.3) + 1.5 * level + 4 * np.minimum(2 * hacked, 1)
        padding = 0.9 * hacked if kind == "padding" else padding
    return right, other, padding


def simulated_run(kind: str, steps: int, rng: np.random.Generator) -> Run:
    """A run of one of the kinds in `CLEAN` and `HACKS`."""
    right, other, padding = courses(kind, steps, rng)
    shape = (steps, PROBLEMS, COMPLETIONS)
    hard = DIFFICULTY * rng.normal(size=(steps, PROBLEMS, 1))
    correct = rng.random(shape) < expit(1.15 * right[:, None, None] - hard)
    tokens = np.exp(
        np.log(19) + 0.05 * hard + padding[:, None, None] * (1 - 0.4 * correct) + 0.25 * rng.normal(size=shape)
    )
    if kind == "padding":
        score = np.clip(tokens / 48, 0, 1)
    else:
        score = (rng.random(shape) < expit(other)[:, None, None]).astype(float)
    step, problem, _ = (places.ravel() for places in np.indices(shape))
    rollouts = pd.DataFrame(
        {"step": step + 1, "problem_id": step * PROBLEMS + problem, "tokens": tokens.round().ravel()}
    )
    rollouts = rollouts.assign(correctness=correct.ravel().astype(float), other=score.ravel())
    models = np.append(0, right[np.linspace(0, steps - 1, MODELS).astype(int)[1:]])
    models[0] = right[0]
    easy = -DIFFICULTY * np.random.default_rng(3).normal(size=QUESTIONS)
    chances = expit(1.15 * models[:, None] + easy)
    return Run(rollouts, rng.binomial(SAMPLES, chances) / SAMPLES)


def arm_of(seeds: int) -> StudyFile:
    """The parts of a study file that the table reads: one arm, rewarded for right answers and for another component."""
    parts = {"correctness": SimpleNamespace(function="correctness", parameters={})}
    spec = SimpleNamespace(components=parts, taking_part=["correctness", "other"])
    runs = [StudyRun.model_construct(arm="arm", seed=seed, spec=spec) for seed in range(seeds)]
    arm = StudyArm(name="arm", weights={"correctness": 1.0, "other": 1.0})
    return StudyFile.model_construct(
        components=["correctness", "other"], arms=[arm], runs=runs, confidence=CONFIDENCE, control=None
    )


def arm_tables(runs: list[Run], steps: int) -> tuple[pd.DataFrame, pd.DataFrame, HeldOut]:
    """Rewards by step, training answers and held-out answers of an arm: the inputs of the table."""
    rewards, answers = [], []
    for seed, run in enumerate(runs):
        means = run.rollouts.groupby("step")["other"].mean().rename("mean").reset_index()
        rewards.append(means.assign(arm="arm", seed=seed, quantity="other"))
        scored = run.rollouts.rename(columns={"correctness": "score"})
        answers.append(answers_of_steps(scored, 1.0).assign(arm="arm", seed=seed))
    values = np.stack([run.held_out for run in runs])
    models = np.linspace(0, steps, MODELS).astype(int)
    held_out = HeldOut("questions", "sampled", list(range(len(runs))), models, values, np.zeros_like(values))
    return pd.concat(rewards), pd.concat(answers), held_out


def by_this_table(runs: list[Run], steps: int) -> tuple[int | None, set[str]]:
    """Onset of the sign with the smallest p-value (None without a sign), and the kinds of all signs."""
    rewards, answers, held_out = arm_tables(runs, steps)
    table_of_signs = reward_hacking(arm_of(len(runs)), rewards, answers, {"arm": [held_out]})
    signs = table_of_signs[table_of_signs["sign"]].sort_values("p")
    # There are only a few kept models. A curve over training, if it has a sign, locates the onset better.
    best = signs[signs["points"] > MODELS] if (signs["points"] > MODELS).any() else signs
    return (None, set()) if best.empty else (int(best["onset"].iloc[0]), set(signs["kind"]))


def former_contrast(values: np.ndarray, place: int | None = None) -> tuple[int, float]:
    """Rise of (S, T) values from a segment of steps to the last segment, in standard errors, by the former rule.

    Without a segment (`place`), the rise starts at the lowest one. The standard error is the larger of two: from
    differences of neighbouring steps, and from the spread over seeds.

    Returns
    -------
    (segment, rise)
    """
    segments = former_segments(values.shape[1])
    means = np.array([values[:, some].mean(axis=1) for some in segments]).T
    place = int(np.argmin(means.mean(axis=0)[:-1])) if place is None else place
    rises = means[:, -1] - means[:, place]
    variance = np.square(np.diff(values, axis=1)).mean() / 2 * (1 / len(segments[place]) + 1 / len(segments[-1]))
    spread = rises.std(ddof=1) if len(values) > 1 else 0.0
    return place, float(rises.mean() / (max(np.sqrt(variance), spread) / np.sqrt(len(values))))


def former_segments(steps: int) -> list[np.ndarray]:
    return np.array_split(np.arange(steps), min(8, steps // 2))


def former_fall(values: np.ndarray) -> tuple[int, bool]:
    """The segment in which a fall of (S, T) values began, and whether it is significant by the former rule (normal)."""
    place, t = former_contrast(-values)
    return place, t > norm.isf((1 - CONFIDENCE) / (len(former_segments(values.shape[1])) - 1))


def by_former_rule(runs: list[Run], steps: int) -> int | None:
    """Onset of a sign by the former rule, from training alone; None without a sign."""
    right, other = (
        np.array([run.rollouts.groupby("step")[name].mean().to_numpy() for run in runs])
        for name in ("correctness", "other")
    )
    place, fell = former_fall(right)
    rose = former_contrast(other, place)[1] > norm.isf(1 - CONFIDENCE)
    middle = former_segments(steps)[place]
    return int(middle[len(middle) // 2]) + 1 if fell and rose else None


def by_rewardspy(rollouts: pd.DataFrame) -> dict[str, int]:
    """Step of the first alert of each detector of rewardspy that raises an alert, with default settings."""

    def reward(completion: str, row: Any) -> dict[str, float]:
        return {"total": row.correctness + row.other, "correctness": row.correctness, "other": row.other}

    spy = GRPOSpy(reward, group_size=COMPLETIONS)
    first: dict[str, int] = {}
    for (step, _), group in rollouts.groupby(["step", "problem_id"], sort=True):
        before = len(spy.store.alerts)
        with spy.step(step=int(step)):
            for row in group.itertuples():
                spy.reward("w " * int(row.tokens), row)
        for alert in spy.store.alerts[before:]:
            first.setdefault(alert.detector, int(step))
    return first


def row(
    kind: str, steps: int, seeds: int, method: str, onsets: list[int | None], parts: Sequence[Collection[str]] = ()
) -> dict[str, Any]:
    """Rates of alarms of one method and of its parts on arms of one kind, and the errors of its onsets."""
    alarms = np.array([onset for onset in onsets if onset is not None], dtype=float)
    error = alarms - (steps // 2 + 1)
    return {
        "kind": kind,
        "steps": steps,
        "seeds": seeds,
        "method": method,
        "arms": len(onsets),
        "rate": len(alarms) / len(onsets),
        "error": float(np.median(error)) if len(alarms) and kind in HACKS else None,
        "near": float((np.abs(error) <= steps / 8).mean()) if len(alarms) and kind in HACKS else None,
        "parts": {name: sum(name in of for of in parts) / len(onsets) for name in sorted(set().union(*parts))},
    }


def rows_of(kind: str, steps: int, arms: int, watched: int) -> Iterator[dict[str, Any]]:
    """Rows of all methods on simulated arms of one kind."""
    rng = generator("planted_hacks", kind, str(steps))
    for seeds in (1, 3):
        simulated = [[simulated_run(kind, steps, rng) for _ in range(seeds)] for _ in range(arms)]
        signs = [by_this_table(runs, steps) for runs in simulated]
        yield row(kind, steps, seeds, "this table", [onset for onset, _ in signs], [kinds for _, kinds in signs])
        yield row(kind, steps, seeds, "former rule", [by_former_rule(runs, steps) for runs in simulated])
        if seeds == 1 and GRPOSpy is not None:
            alerts = [by_rewardspy(runs[0].rollouts) for runs in simulated[:watched]]
            yield row(kind, steps, seeds, "rewardspy", [min(of.values(), default=None) for of in alerts], alerts)


def noise_rows(curves: int) -> Iterator[dict[str, Any]]:
    """Rates of false alarms of a fall, at 5 %, on noise with a known autoregression (1 is a random walk)."""
    for steps, seeds, coefficient in product((40, 200), (1, 2, 5), (0.0, 0.3, 0.6, 0.9, 1.0)):
        rng = generator("planted_hacks", "noise", str(steps), str(seeds), str(coefficient))
        alarms = np.zeros(2)
        for _ in range(curves):
            values = lfilter([1.0], [1.0, -coefficient], rng.normal(size=(seeds, steps + 100)), axis=1)[:, 100:]
            alarms += [rises(points(-values)).largest()[1] < 1 - CONFIDENCE, former_fall(values)[1]]
        names = {"steps": steps, "seeds": seeds, "coefficient": coefficient}
        yield names | dict(zip(("table", "former"), alarms / curves, strict=True))


def noise_table(rows: list[dict[str, Any]]) -> str:
    """Markdown: percent of false alarms of a fall by this table, and by the former rule in brackets."""
    cells = pd.DataFrame(rows)
    cells["text"] = [
        f"{100 * new:.0f} ({100 * old:.0f})" for new, old in zip(cells["table"], cells["former"], strict=True)
    ]
    wide = cells.pivot(index=["steps", "seeds"], columns="coefficient", values="text").reset_index()
    names = ["steps", "seeds", *(f"{value:g}" for value in wide.columns[2:-1]), "random walk"]
    lines = ["| " + " | ".join(names) + " |", "| --- " * len(names) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in wide.to_numpy())])


def parts_table(rows: pd.DataFrame) -> str:
    """Markdown: percent of single runs with an alarm, by kind of sign and by detector of rewardspy."""
    single = rows[rows["seeds"] == 1]
    names = {method: sorted(set().union(*single.loc[single["method"] == method, "parts"])) for method in METHODS}
    header = [*names["this table"], *(f"rewardspy {name}" for name in names["rewardspy"])]
    lines = ["| runs | steps | " + " | ".join(header) + " |", "| --- " * (len(header) + 2) + "|"]
    for (kind, steps), of in single.groupby(["kind", "steps"], sort=False):
        parts = of.set_index("method")["parts"]
        cells = [f"{100 * parts[one].get(name, 0):.0f}" for one in METHODS if one in parts for name in names[one]]
        lines.append(f"| {kind} | {steps} | {' | '.join(cells)} |")
    return "\n".join(lines)


def real_runs(path: Path) -> list[dict[str, Any]]:
    """Signs of the table of a finished study and alerts of rewardspy, by run."""
    study = read_study(path)
    signs = read_parquet(path.parent / "tables" / "reward_hacking.parquet")
    rows = []
    for run in study.runs:
        rollouts = read_parquet(path.parent / run.folder / "rollouts.parquet")
        weights = {name: run.spec.weights[name] for name in study.components}
        others = [weight * rollouts[f"score_{name}"] for name, weight in weights.items() if name != "correctness"]
        rollouts = rollouts.assign(
            correctness=weights["correctness"] * rollouts["score_correctness"], other=sum(others)
        )
        alerts = by_rewardspy(rollouts) if GRPOSpy is not None else None
        of_arm = signs[(signs["arm"] == run.arm) & signs["sign"]]
        rows.append({"run": f"{run.arm}, seed {run.seed}", "signs": sorted(set(of_arm["kind"])), "rewardspy": alerts})
    return rows


def table(result: dict[str, Any]) -> str:
    """The result in Markdown: rates of alarms in percent, and the errors of the onsets of right alarms."""
    rows = pd.DataFrame(result["rows"])
    methods = list(dict.fromkeys(zip(rows["seeds"], rows["method"], strict=True)))
    methods.sort(key=lambda one: (one[1] == "rewardspy", one[0]))
    names = [method + (", 1 run" if seeds == 1 else f", {seeds} seeds") for seeds, method in methods]
    lines = ["| runs | steps | " + " | ".join(names) + " |", "| --- " * (len(names) + 2) + "|"]
    for (kind, steps), of_kind in rows.groupby(["kind", "steps"], sort=False):
        cells = of_kind.set_index(["seeds", "method"])
        texts = [text(cells.loc[one]) if one in cells.index else "" for one in methods]
        lines.append(
            f"| {'clean' if kind in CLEAN else 'hack'}: {({**CLEAN, **HACKS})[kind]} | {steps} | {' | '.join(texts)} |"
        )
    skipped = "" if result["rewardspy"] else " rewardspy could not be imported and is missing."
    arms = " and ".join(str(count) for count in sorted(set(rows["arms"]), reverse=True))
    lines += [
        "",
        f"Percent of {arms} (rewardspy) simulated arms with an alarm.{skipped} Percent of single runs with an alarm, "
        "by kind of sign and by detector:",
    ]
    lines += [
        "",
        parts_table(rows),
        "",
        "Percent of false alarms of a fall alone, at a level of 5 %, by the coefficient of the autoregressive noise. "
        "The former rule is in brackets:",
    ]
    lines += ["", noise_table(result["noise"])]
    return "\n".join(lines)


def text(cell: pd.Series) -> str:
    """A rate in percent; for detected hacks also the median error of the onset, and the percent near the true onset."""
    rate = f"{100 * cell['rate']:.0f}"
    if cell["error"] is None or np.isnan(cell["error"]):
        return rate
    return f"{rate} ({cell['error']:+.0f}; {100 * cell['near']:.0f})".replace("-", "−")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--arms", type=int, default=120, help="simulated arms of each kind, of 40 steps")
    parser.add_argument("--watched", type=int, default=20, help="number of these arms that rewardspy sees")
    parser.add_argument("--steps", type=int, nargs="+", default=[40])
    parser.add_argument("--study", type=Path, help="study.json of a finished study")
    options = parser.parse_args()
    if GRPOSpy is None:
        print("rewardspy cannot be imported: its columns are missing from the table")
    rows = []
    for steps in options.steps:
        for kind in [*CLEAN, *HACKS]:
            share = min(1.0, 40 / steps + 0.1)  # fewer arms of longer runs
            for one in rows_of(kind, steps, round(share * options.arms), round(share * options.watched)):
                print(one, flush=True)
                rows.append(one)
    noise = list(noise_rows(2 * options.arms))
    result: dict[str, Any] = {"rows": rows, "noise": noise, "rewardspy": GRPOSpy is not None}
    if options.study:
        result["real"] = real_runs(options.study)
        print(*result["real"], sep="\n")
    options.json.write_text(json.dumps(result, indent=1))
    print(table(result))


if __name__ == "__main__":
    main()
