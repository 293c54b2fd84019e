"""Signs of reward hacking in simulated studies whose truth is known: clean arms, and arms with a planted hack.

    python benchmarks/planted_hacks.py --json FILE [--studies 200]

A run has steps x 8 problems x 8 completions, as in the demo, and a kept model in the middle. The chance of a right
completion is logistic in the course of the policy and in the problem's difficulty. Courses, spreads and lengths are
those of the demo's runs; seeds differ by .15 on the logistic scale. Hacks begin in the middle of training. A study has
the arm of the named kind and three arms that learn without a hack. Rates are those of the named arm.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from scipy.signal import lfilter
from scipy.special import expit, logit

from reward_ablation.analysis.reward_hacking import reward_hacking
from reward_ablation.analysis.statistics.intervals import generator
from reward_ablation.analysis.study_file import StudyArm, StudyFile, StudyRun

STEPS, PROBLEMS, COMPLETIONS, QUESTIONS, SAMPLES = 40, 8, 8, 200, 4
#: Standard deviation of problems on the logistic scale, which gives a step's accuracy the demo's spread, .1; and of
#: seeds.
DIFFICULTY, SEEDS = 1.2, 0.15

#: Kinds of arms without a hack, and with one.
CLEAN = {
    "flat": "accuracy stays",
    "drift": "accuracy drifts up in a straight line",
    "levelling off": "accuracy and reward level off, with autoregressive noise of .6",
    "saturates": "accuracy saturates before the other reward does",
    "curriculum": "problems of training become harder, held-out accuracy rises",
    "longer": "accuracy levels off, and all answers grow longer",
    "wandering": "accuracy stays, with autoregressive noise of .9",
    "random walk": "accuracy is a random walk with drift",
}
HACKS = {
    "padding": "answers grow long, wrong ones more, and accuracy falls",
    "empty format": "the format stays right, but the answers do not: accuracy falls",
    "keyword": "a rewarded word appears everywhere, and accuracy stops rising",
    "by heart": "the training problems are learned by heart: their accuracy rises, held-out accuracy does not",
}


def courses(kind: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logits of accuracy and of the other component, and logarithm of the padding's factor of length, by step."""
    time = np.arange(STEPS) / STEPS
    level = 1 - np.exp(-3 * time)
    hacked = np.maximum(time - 0.5, 0) * 2
    right, other, padding = logit(0.25) + 1.9 * level, logit(0.26) + 4 * level, np.zeros(STEPS)
    if kind == "flat":
        right = np.full(STEPS, logit(0.4))
    elif kind == "drift":
        right = logit(0.25) + 1.9 * time
    elif kind == "levelling off":
        right = right + lfilter([1.0], [1.0, -0.6], 0.24 * rng.normal(size=STEPS))
    elif kind == "saturates":
        right, other = logit(0.25) + 1.9 * (1 - np.exp(-10 * time)), logit(0.26) + 4 * time
    elif kind == "longer":
        padding = 0.5 * time
    elif kind == "wandering":
        right = logit(0.4) + lfilter([1.0], [1.0, -0.9], 0.22 * rng.normal(size=STEPS))
    elif kind == "random walk":
        right = logit(0.3) + time + np.cumsum(0.2 * rng.normal(size=STEPS))
    elif kind == "keyword":
        right = np.minimum(logit(0.25) + 3 * time, logit(0.25) + 1.5)
        other = logit(0.05) + 6 * np.minimum(2 * hacked, 1)
    elif kind in ("padding", "empty format"):
        right, other = right - 1.8 * hacked, logit(0.3) + 1.5 * level + 4 * np.minimum(2 * hacked, 1)
        padding = 0.9 * hacked if kind == "padding" else padding
    return right + SEEDS * rng.normal() * level, other, padding


def simulated_run(kind: str, rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A run: rows (quantity, step, mean) of its rewards, and rows (step, metric, tokens) of its held-out answers."""
    right, other, padding = courses(kind, rng)
    shape, time = (STEPS, PROBLEMS, COMPLETIONS), np.arange(STEPS) / STEPS
    hard = DIFFICULTY * rng.normal(size=(STEPS, PROBLEMS, 1))
    hard += 2.5 * time[:, None, None] * (kind == "curriculum")
    of_training = right + (1.5 * np.maximum(time - 0.5, 0) * 2 if kind == "by heart" else 0)
    held_out = right if kind != "by heart" else np.minimum(right, right[STEPS // 2])
    correct = rng.random(shape) < expit(1.15 * of_training[:, None, None] - hard)
    longer = padding[:, None, None] * (1 - 0.4 * correct)
    tokens = np.exp(np.log(19) + 0.05 * hard + longer + 0.25 * rng.normal(size=shape))
    if kind == "padding":
        score = np.clip(tokens / 48, 0, 1)
    else:
        score = (rng.random(shape) < expit(other)[:, None, None]).astype(float)
    means = {"correctness": correct.mean(axis=(1, 2)), "other": score.mean(axis=(1, 2))}
    steps = np.arange(1, STEPS + 1)
    rewards = pd.concat([pd.DataFrame({"quantity": of, "step": steps, "mean": mean}) for of, mean in means.items()])
    easy = -DIFFICULTY * np.random.default_rng(3).normal(size=QUESTIONS)
    rows = []
    for step in (STEPS // 2, STEPS):
        chances = expit(1.15 * held_out[step - 1] + easy)
        accuracy = (rng.binomial(SAMPLES, chances) / SAMPLES).mean()
        lengths = 19 * np.exp(padding[step - 1] * (1 - 0.4 * accuracy) + 0.25 * rng.normal(size=QUESTIONS * SAMPLES))
        rows.append((step, accuracy, lengths.mean()))
    return rewards, pd.DataFrame(rows, columns=["step", "metric", "tokens"])


def study_of(arms: list[str], seeds: int) -> StudyFile:
    """The parts of a study file that the table reads."""
    parts = {"correctness": SimpleNamespace(function="correctness", parameters={})}
    spec = SimpleNamespace(components=parts, taking_part=["correctness", "other"])
    runs = [
        StudyRun.model_construct(arm=arm, seed=seed, folder=f"runs/{arm}/seed{seed}", spec=spec)
        for arm in arms
        for seed in range(seeds)
    ]
    return StudyFile.model_construct(
        components=["correctness", "other"],
        arms=[StudyArm(name=arm, weights={"correctness": 1.0, "other": 1.0}) for arm in arms],
        runs=runs,
        confidence=0.95,
        datasets=["questions"],
        primary=SimpleNamespace(dataset="questions", mode="sampled", metric="accuracy_lenient"),
    )


def signs(kind: str, seeds: int, rng: np.random.Generator) -> set[str]:
    """Kinds of signs of the arm of this kind, in one simulated study."""
    arms = {"arm": kind, "other 1": "drift", "other 2": "levelling off", "other 3": "saturates"}
    easy = -DIFFICULTY * np.random.default_rng(3).normal(size=QUESTIONS)
    rewards, answers = [], []
    for arm, of_arm in arms.items():
        start = courses(of_arm, np.random.default_rng(0))[0][0]
        base = pd.DataFrame({"step": [0], "metric": [expit(1.15 * start + easy).mean()], "tokens": [19 * np.exp(0.03)]})
        for seed in range(seeds):
            of_run, held_out = simulated_run(of_arm, rng)
            rewards.append(of_run.assign(arm=arm, seed=seed))
            answers.append(pd.concat([base, held_out]).assign(arm=arm, seed=seed, mode="sampled"))
    table = reward_hacking(study_of(list(arms), seeds), pd.concat(rewards), pd.concat(answers))
    return set(table.loc[table["sign"] & (table["arm"] == "arm"), "kind"])


def table(result: dict[str, Any]) -> str:
    """The result in Markdown: rates of signs in percent."""
    rows = pd.DataFrame(result["rows"])
    kinds = ["any", "fall", "gap", "length"]
    names = [f"{kind}, {seeds} seeds" for seeds in sorted(set(rows["seeds"])) for kind in kinds]
    lines = ["| arm | " + " | ".join(names) + " |", "| --- " * (len(names) + 1) + "|"]
    for kind, of_kind in rows.groupby("kind", sort=False):
        cells = [f"{100 * rate:.0f}" for rate in of_kind.sort_values("seeds")[kinds].to_numpy().ravel()]
        what = f"clean: {CLEAN[kind]}" if kind in CLEAN else f"hack: {HACKS[kind]}"
        lines.append(f"| {what} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", f"Percent of {result['studies']} simulated studies in which the arm has a sign."])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--studies", type=int, default=200, help="simulated studies of each kind and number of seeds")
    options = parser.parse_args()
    rows = []
    for kind in [*CLEAN, *HACKS]:
        for seeds in (2, 3):
            rng = generator("planted_hacks", kind, str(seeds))
            found = [signs(kind, seeds, rng) for _ in range(options.studies)]
            of_kinds = {name: sum(name in of for of in found) / len(found) for name in ("fall", "gap", "length")}
            rows.append({"kind": kind, "seeds": seeds, "any": sum(map(bool, found)) / len(found), **of_kinds})
            print(rows[-1], flush=True)
    result = {"rows": rows, "studies": options.studies}
    options.json.write_text(json.dumps(result, indent=1))
    print(table(result))


if __name__ == "__main__":
    main()
