"""A made-up study: the files that runs and evaluations would have written, with known effects; and its tables.

Scores rise with the weight of their component, every seed has its own level, and the gradients of
the first two components turn against each other as training goes. No model is involved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import combinations_with_replacement, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from reward_ablation.analysis.__main__ import main
from reward_ablation.analysis.reading import read_table
from reward_ablation.analysis.registry import RULES, file_of
from reward_ablation.combination.load import load_method
from reward_ablation.combination.normalisation import SUM_THEN_NORMALIZE, shares
from reward_ablation.combination.of_run import CombinationOfRun
from reward_ablation.gram.similarity import SCHEMA
from reward_ablation.gram.store import GRAMS_FILE, ROWS_FILE, gram_table, row_table
from reward_ablation.spec.run import ArmSpec
from reward_ablation.system.files import sha256, write_json, write_parquet
from specs import arm_spec

FOUR_ARMS = {
    "correctness_only": {"correctness": 1.0, "format": 0.0, "length": 0.0},
    "format_only": {"correctness": 0.0, "format": 1.0, "length": 0.0},
    "length_only": {"correctness": 0.0, "format": 0.0, "length": 1.0},
    "equal_weights": {"correctness": 0.34, "format": 0.33, "length": 0.33},
}


#: Columns of each table.
SCHEMAS = {
    table: schema
    for rule in RULES.values()
    for table, schema in import_module(f"reward_ablation.{rule.module}").SCHEMAS.items()
}


def run_rule(rule: str, root: Path, output: Path, *options: str) -> None:
    """Run the command of a rule of tables."""
    main([rule, "--study", str(root / "study.json"), "--output", str(output), *options])


def write_tables(root: Path, output: Path | None = None, rules: Sequence[str] = tuple(RULES)) -> Path:
    """Run the commands of rules of tables in order; the folder of the tables."""
    output = output or root / "tables"
    for rule in rules:
        run_rule(rule, root, output)
    return output


def made_tables(root: Path, *rules: str) -> dict[str, pd.DataFrame]:
    """Tables of some rules, or of all, by name; they are made and read."""
    chosen = rules or tuple(RULES)
    folder = write_tables(root, rules=chosen)
    return {table: read_table(folder / file_of(table)) for rule in chosen for table in RULES[rule].tables}


def advantage_shares(
    scores: np.ndarray, weights: np.ndarray, group: int, scale: str = "group", aggregation: str = SUM_THEN_NORMALIZE
) -> np.ndarray:
    """Parts of the advantages as TRL makes them; each `group` consecutive rows are a group."""
    return shares(scores, np.arange(len(scores)) // group, weights, 1e-4, aggregation, scale)


def combined(rollouts: pd.DataFrame, gradients: pd.DataFrame, spec: ArmSpec) -> tuple[pd.DataFrame, pa.Table]:
    """Rollouts with the advantages that a run's method gives, and the log of its weights."""
    weights = {name: spec.weights[name] for name in spec.taking_part}
    run = CombinationOfRun(load_method(spec.combine.method), spec.combine, weights)
    advantages = [f"advantage_{name}" for name in weights]
    rollouts, log = rollouts.assign(**{f"advantage_{name}": 0.0 for name in spec.weights}), []
    for step, batch in rollouts.groupby("step"):
        scores = batch[[f"score_{name}" for name in weights]].to_numpy(dtype=float)
        groups = batch.groupby("problem_id").ngroup().to_numpy()
        shares = run.component_advantages(scores, groups, batch["tokens"].to_numpy(), step - 1, 1e-5)
        rollouts.loc[batch.index, advantages] = shares
        log.append(run.table(step))
        if (gradients["step"] == step).any():
            run.see(pa.Table.from_pandas(gradients[gradients["step"] == step]))
    return rollouts.assign(advantage=rollouts[advantages].sum(axis=1)), pa.concat_tables(log)


@dataclass
class MadeUpStudy:
    """Size and content of a made-up study; its arms are weights by component."""

    arms: dict[str, dict[str, float]] = field(default_factory=lambda: FOUR_ARMS)
    seeds: tuple[int, ...] = (0, 1)
    steps: int = 6
    rollouts: int = 8
    datasets: dict[str, int] = field(default_factory=lambda: {"gsm8k_test": 40})
    samples: int = 2
    layers: int = 2
    gradients_every: int = 1
    backward: str | None = None
    folding_error: float = 0.0  # of cosines
    unmeasured: tuple[str, ...] = ()  # arms whose runs end before a measured step
    design: str = "list"
    keep_models: int = 0
    problems: int = 1  # among which the rollouts of a step are shared
    sample_grams: bool = False  # whether runs keep the inner products of single completions' gradients
    unscored: str | None = None  # component that scores no rollout
    control: str | None = None
    where_trained: tuple[str, ...] = ()  # components that only arms with a weight on them score
    claims: list[dict[str, Any]] = field(default_factory=list)  # declared claims, as study.json has them
    methods: dict[str, dict[str, Any]] = field(default_factory=dict)  # `combine` of the spec, by arm
    training: dict[str, dict[str, Any]] = field(default_factory=dict)  # further settings of TRL, by arm
    constant_from: int | None = None  # step from which the second component is constant: no gradient

    @property
    def components(self) -> list[str]:
        return list(next(iter(self.arms.values())))

    @property
    def layer_names(self) -> list[str]:
        return ["all", "embed_tokens", *(f"layers.{n}" for n in range(self.layers)), "norm", "lm_head"]

    def weights_in(self, arm: str) -> dict[str, float]:
        """Weights of the components that score the arm's runs."""
        return {name: weight for name, weight in self.arms[arm].items() if weight or name not in self.where_trained}

    def spec(self, arm: str) -> dict[str, Any]:
        functions = ["correctness", "answer_format", "token_length", "random"]
        of_all = {name: {"function": functions[min(place, 3)]} for place, name in enumerate(self.components)}
        return arm_spec(
            weights=self.weights_in(arm),
            components={name: of_all[name] for name in self.weights_in(arm)},
            gradients={"every": self.gradients_every} | ({"backward": self.backward} if self.backward else {}),
            training={"learning_rate": 1e-5, "max_steps": self.steps, "per_device_train_batch_size": self.rollouts}
            | self.training.get(arm, {}),
            **({"combine": {"parameters": {}} | self.methods[arm]} if arm in self.methods else {}),
        )

    def plan(self) -> dict[str, Any]:
        """Content of study.json."""
        runs = [
            {"arm": arm, "key": f"{place:08x}", "seed": seed, "folder": f"runs/{arm}-{place:08x}/seed{seed}"}
            | {"spec": self.spec(arm)}
            for place, arm in enumerate(self.arms)
            for seed in self.seeds
        ]
        return {
            "name": "made_up",
            "components": self.components,
            "arms": [
                {"name": name, "weights": weights}
                | ({"combine": self.methods.get(name, {"method": "weighted_sum"})["method"]} if self.methods else {})
                for name, weights in self.arms.items()
            ],
            "runs": runs,
            "datasets": list(self.datasets),
            "answers": {dataset: f"evaluation/{{run}}/{dataset}.parquet" for dataset in self.datasets},
            "questions": {dataset: f"data/evaluation/{dataset}.parquet" for dataset in self.datasets},
            "keep_models": self.keep_models,
            "inputs": {"problems": "data/train.parquet"},
            "seeds": list(self.seeds),
            "design": self.design,
            "baseline": next(iter(self.arms)),
            "control": self.control,
            "bootstrap": 200,
            "confidence": 0.95,
            "model": "Qwen/Qwen2.5-1.5B-Instruct at 989aa7980e4cf806f80c7fef2b1adb7bc71aa306",
            "training_data": "gsm8k, split train: 7473 problems",
            **({"claims": self.claims} if self.claims else {}),
        }

    def write(self, root: Path) -> Path:
        """Write study.json and every run's files under `root`; return the path of study.json."""
        plan = self.plan()
        write_json(plan, root / "study.json")
        (root / "data").mkdir(parents=True, exist_ok=True)
        write_parquet(pd.DataFrame({"id": ["gsm8k:0"], "question": ["How many?"]}), root / "data" / "train.parquet")
        for number, run in enumerate(plan["runs"]):
            rng, folder, weights = np.random.default_rng([7, number]), root / run["folder"], self.weights_in(run["arm"])
            level = rng.normal(0, 0.03)
            rollouts, gradients = self._rollouts(rng, weights, level), self._gradients(rng, weights)
            measured = run["arm"] not in self.unmeasured
            if run["arm"] in self.methods:
                rollouts, log = combined(rollouts, gradients, ArmSpec.read(run["spec"], "spec"))
                write_parquet(log, folder / "weights.parquet")
            write_parquet(rollouts, folder / "rollouts.parquet")
            write_parquet(gradients if measured else gradients.iloc[:0], folder / "gradients.parquet")
            if self.sample_grams and measured:
                self._write_grams(np.random.default_rng([8, number]), rollouts, folder)
            write_json(self._record(run, folder), folder / "run.json")
            for dataset in self.datasets:
                name = root / "evaluation" / Path(run["folder"]).relative_to("runs") / f"{dataset}.parquet"
                write_parquet(self._answers(rng, weights, level, dataset), name)
                if self.keep_models:
                    write_parquet(self._kept(rng, weights, level, dataset), name.with_suffix(".steps.parquet"))
        for dataset in self.datasets:
            nothing = dict.fromkeys(self.components, 0.0)
            answers = self._answers(np.random.default_rng(11), nothing, 0.0, dataset)
            write_parquet(answers, root / "evaluation" / "base" / f"{dataset}.parquet")
            ids = [f"{dataset}:{n}" for n in range(self.datasets[dataset])]
            problems = {"id": ids, "question": [f"What is {n}?" for n in range(len(ids))], "answer": "1"}
            problems |= {"level": [1 + n % 3 for n in range(len(ids))], "subject": None}
            write_parquet(pd.DataFrame(problems), root / "data" / "evaluation" / f"{dataset}.parquet")
        return root / "study.json"

    def _record(self, run: dict[str, Any], folder: Path) -> dict[str, Any]:
        packages = {"python": "3.11.7", "torch": "2.13.0", "transformers": "5.17.0", "trl": "1.16.0"}
        hardware = {"machine": "x86_64", "cpus": 16, "gpus": ["NVIDIA H200"], "processes": 1}
        attempt = {"packages": packages, "hardware": hardware, "from_step": 0, "to_step": self.steps}
        return {
            "spec": run["spec"],
            "seed": run["seed"],
            "code": f"c0de{'' if len(run['spec']['components']) == len(self.components) else ' of fewer'}",
            "modules": {"reward_ablation.training.core.build": "0"},
            "inputs": {"problems": sha256(folder.parents[2] / "data" / "train.parquet"), "model": "0"},
            "attempts": [attempt | {"ended": "done", "wall_seconds": 61.5}],
            "packages": packages,
            "hardware": hardware,
            "wall_seconds": 61.5,
            "gpu_hours": 0.0,
            "steps": self.steps,
            "files": {file.name: sha256(file) for file in folder.glob("*.parquet") if "gram" not in file.name},
        }

    def _rollouts(self, rng: np.random.Generator, weights: dict[str, float], level: float) -> pd.DataFrame:
        steps = np.repeat(np.arange(1, self.steps + 1), self.rollouts)
        progress = 1 - np.exp(-3 * steps / max(self.steps, 30))
        total_weight = sum(abs(w) for w in weights.values()) or 1.0
        table: dict[str, Any] = {"step": steps}
        total = np.zeros(len(steps))
        for place, (name, weight) in enumerate(weights.items()):
            rate = np.clip(0.25 + 0.1 * place + level + 0.55 * progress * weight / total_weight, 0.01, 0.99)
            score = rng.binomial(1, rate) if place < 2 else rng.beta(20 * rate, 20 * (1 - rate))
            if name == self.unscored:
                score = np.full(len(steps), np.nan)
            table[f"score_{name}"] = score.astype(float)
            total = total + weight * np.nan_to_num(score)
        length = 180 - 60 * progress * list(weights.values())[-1] / total_weight + 200 * level
        tokens = np.minimum(rng.normal(length, 30), 256).astype(int)
        group = self.rollouts // self.problems
        scores = np.array([table[f"score_{name}"] for name in weights]).T
        shares = advantage_shares(scores, np.array(list(weights.values())), group)
        if not any(weight for name, weight in weights.items() if name != self.unscored):
            total = np.full(len(steps), np.nan)
        columns = {
            "total": total,
            "tokens": tokens,
            "truncated": tokens >= 220,
            "problem_id": np.tile([f"gsm8k:{n // group}" for n in range(self.rollouts)], self.steps),
            "completion": "text",
            "stop_reason": "stop",
            "sampling_gap": None,
            "sampling_corrected": None,
            "rollout": np.tile(np.arange(self.rollouts) % group, self.steps),
            "advantage": shares.sum(axis=1),
            **{f"advantage_{name}": shares[:, place] for place, name in enumerate(weights)},
        }
        return pd.DataFrame(table | columns)

    def _write_grams(self, rng: np.random.Generator, rollouts: pd.DataFrame, folder: Path) -> None:
        """Gradients of 60 numbers a layer: a direction for each component's score, and noise."""
        names = self.layer_names[1:]
        scored = [name for name in self.components if f"score_{name}" in rollouts]
        directions = np.random.default_rng(5).normal(size=(len(names), len(self.components), 60))[:, : len(scored)]
        grams, rows = [], []
        for step, batch in rollouts.groupby("step"):
            scores = np.nan_to_num(batch[[f"score_{name}" for name in scored]].to_numpy())
            gradients = rng.normal(size=(len(names), len(batch), 60)) - scores @ directions
            if self.gradients_every and (step - 1) % self.gradients_every:
                continue
            grams.append(gram_table(step, 0, names, gradients @ gradients.swapaxes(1, 2)))
            labels = [list(batch[column]) for column in ("problem_id", "rollout")]
            size = len(batch)
            rows.append(row_table(step, 0, [step] * size, *labels, ["all_tokens"] * size, [1 / size] * size))
        write_parquet(pa.concat_tables(grams), folder / GRAMS_FILE)
        write_parquet(pa.concat_tables(rows), folder / ROWS_FILE)

    def _gradients(self, rng: np.random.Generator, weights: dict[str, float]) -> pd.DataFrame:
        measured = range(1, self.steps + 1, self.gradients_every) if self.gradients_every else []
        pairs = list(combinations_with_replacement(weights, 2))
        places = product(measured, enumerate(self.layer_names), ("alone", "share"), pairs)
        rows = [(step, layer, a, b, definition, depth) for step, (depth, layer), definition, (a, b) in places]
        names = ["step", "layer", "component_a", "component_b", "definition", "depth"]
        labels = pd.DataFrame(rows, columns=names).astype({"step": int, "depth": int})
        turning = np.cos(3 * labels["step"] / self.steps + labels["component_a"].map(weights).astype(float))
        turning *= 0.3 + 0.7 * labels["depth"] / len(self.layer_names)
        noise = rng.normal(0, [[0.05], [0.03], [0.02]], (3, len(labels)))
        own = labels["component_a"] == labels["component_b"]
        cosine = np.where(own, 1.0, np.clip(turning + noise[0], -0.95, 0.95))
        cosine[labels["definition"] == "share"] *= -1  # so that a figure of the wrong definition shows
        if self.constant_from:
            constant = (labels["component_a"] == self.components[1]) | (labels["component_b"] == self.components[1])
            cosine[(labels["step"] >= self.constant_from) & constant] = np.nan
        same, cross = 0.05 * cosine + noise[1], 0.03 + noise[2]
        known = np.where(np.isnan(cosine), np.nan, 1.0)
        columns = {
            "dot": 2.0 * np.nan_to_num(cosine),
            "cosine": cosine,
            "norm_a": known * 2**0.5,
            "norm_b": known * 2**0.5,
            "self": cosine - same - cross,
            "same_prompt": same,
            "cross_prompt": known * cross,
            "across_blocks": known * 0.0,
            "folding_error": known * self.folding_error,
            **{f"{name}_{end}": known for name in ("self", "same_prompt", "cross_prompt") for end in ("low", "high")},
            "cosine_low": np.clip(cosine - 0.1, -1, 1),
            "cosine_high": np.clip(cosine + 0.1, -1, 1),
        }
        table = pd.concat([labels, pd.DataFrame(columns)], axis=1)[SCHEMA.names]
        return table.astype(dict.fromkeys(SCHEMA.names[6:], "float32"))

    def _answers(self, rng: np.random.Generator, weights: dict[str, float], level: float, dataset: str) -> pd.DataFrame:
        questions = self.datasets[dataset]
        easy = np.random.default_rng(3).beta(2, 3, questions)  # the same questions are easy for every model
        first, second = [*weights.values(), 0.0][:2]
        parts = []
        for mode, samples in (("greedy", 1), ("sampled", self.samples)):
            chance = np.clip(easy + 0.3 * first + level - (0.1 if mode == "sampled" else 0), 0, 1)
            for sample in range(samples):
                lenient = rng.random(questions) < chance
                formatted = rng.random(questions) < np.clip(0.5 + 0.45 * second + 0.2 * first, 0, 1)
                tokens = rng.normal(190 - 60 * list(weights.values())[-1] + 100 * level, 40, questions).astype(int)
                part = {
                    "problem_id": [f"{dataset}:{n}" for n in range(questions)],
                    "mode": mode,
                    "sample": sample,
                    "completion": "text",
                    "answer": "1",
                    "status": "correct",
                    "correct_strict": lenient & formatted,
                    "correct_lenient": lenient,
                    # the second grader reads one question in ten otherwise than the first
                    "correct_math_paper": (lenient & formatted) != (np.arange(questions) % 10 == 0),
                    "format": formatted,
                    "tokens": tokens,
                    "truncated": tokens > 240,
                }
                parts.append(pd.DataFrame(part))
        return pd.concat(parts, ignore_index=True)

    def _kept(self, rng: np.random.Generator, weights: dict[str, float], level: float, dataset: str) -> pd.DataFrame:
        """Answers of the models that were kept, on a straight line from the base model to the final one."""
        parts = []
        for step in range(self.keep_models, self.steps, self.keep_models):
            so_far = {name: weight * step / self.steps for name, weight in weights.items()}
            answers = self._answers(rng, so_far, level, dataset)
            answers.insert(0, "step", step)
            parts.append(answers)
        return pd.concat(parts, ignore_index=True)
