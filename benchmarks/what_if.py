"""Does any rule predict the change of a component better than the covariance of scores, which is free?

    python benchmarks/what_if.py --json FILE [--folder FOLDER]

Trains variants of the demo and of `config/presets/four_rewards_small.yaml`: every step is measured, and placements are
left out because the map needs advantages on whole completions. A worker trains one run at a time and also keeps inner
products under Adam's second moments. Every rule predicts an arm from the other arms' runs only. `--folder` keeps the
trained runs, and does not train runs again that it already holds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from safetensors import safe_open

from reward_ablation.analysis.gradients.measured_steps import StepProducts, effects_on_other_prompts, read_products
from reward_ablation.analysis.gradients.measured_tables import on_all_components, predictions_by_arm
from reward_ablation.analysis.gradients.what_if import MeasuredRun
from reward_ablation.analysis.gradients.what_if_check import CELLS, agreement_table, observed_change, score_covariances
from reward_ablation.analysis.statistics.known import mean_of_known
from reward_ablation.analysis.study_file import StudyFile, StudyRun, read_study
from reward_ablation.gram.similarity import inverse_norms
from reward_ablation.study.canonical import canonical
from reward_ablation.training.core.gradients.recorder import layer_of

ROOT = Path(__file__).parents[1]
WORKER = Path(__file__).parent / "workers" / "adam_moments.py"
#: Where the table goes, in `docs/`.
DOCUMENT = "gradients.md"
CONFIGS = {"demo": "demo.yaml", "four rewards": "presets/four_rewards_small.yaml"}

#: The study whose first run is timed with and without moments, and the number of such pairs.
PRICED, TURNS = "demo", 3

#: Steps that a prediction uses, as shares of a run: its beginning, its middle, the whole run.
WINDOWS = {"first tenth": (0.0, 0.1), "middle half": (0.25, 0.75), "all steps": (0.0, 1.0)}

#: Rules of prediction, with their names in the table.
RULES = {
    "covariance": "covariance of scores (no gradient)",
    "map": "map over weights",
    "by layer": "map, each layer divided by the root of its mean squared gradient",
    "Adam": "map under Adam's second moments",
}


def inputs_of(folder: Path, name: str) -> Path:
    """Let the workflow make a study's model and data. Returns the folder of its results."""
    config = yaml.safe_load((ROOT / "config" / CONFIGS[name]).read_text())
    for component in config["components"].values():
        component.pop("placement", None)
    config["gradients"]["every"] = 1
    (folder / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    results = Path("results") / config["name"]
    command = ["snakemake", "--snakefile", ROOT / "Snakefile", "--directory", folder, "--cores", "1", "--quiet"]
    command += ["--configfile", folder / "config.yaml", "--"]
    subprocess.run([sys.executable, "-m", *command, results / "study.json"], check=True)
    study = read_study(folder / results / "study.json")
    subprocess.run([sys.executable, "-m", *command, *(results / path for path in study.inputs.values())], check=True)
    return folder / results


def train(root: Path, run: StudyRun, inputs: dict[str, str], folder: Path, plain: bool = False) -> float:
    """Train a run, unless the folder holds it already. Returns the CPU seconds of the training."""
    if not (folder / "cpu_seconds.txt").exists():
        folder.mkdir(parents=True, exist_ok=True)
        spec = folder.parent / f"{folder.name}.json"
        spec.write_text(canonical({**run.spec.content(), "seed": run.seed}))
        model, problems = (root / inputs["model"]).parent, root / inputs["problems"]
        command = [
            sys.executable,
            WORKER,
            "--spec",
            spec,
            "--model",
            model,
            "--problems",
            problems,
            "--run-dir",
            folder,
        ]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        subprocess.run([*command, *["--plain"] * plain], check=True, stdout=subprocess.DEVNULL, env=environment)
    return float((folder / "cpu_seconds.txt").read_text())


def sizes_of_layers(folder: Path) -> dict[str, int]:
    """Number of parameters of each layer of a run's model."""
    sizes: dict[str, int] = {}
    with safe_open(folder / "model" / "model.safetensors", "np") as tensors:
        for name in tensors.keys():  # noqa: SIM118
            sizes[layer_of(name)] = sizes.get(layer_of(name), 0) + int(np.prod(tensors.get_slice(name).get_shape()))
    return sizes


def over_mean_squares(products: StepProducts, sizes: dict[str, int]) -> list[np.ndarray]:
    """Gram matrices summed over layers, each layer divided by the root of its mean squared training gradient."""
    own = products.measured.own_shares.sum(axis=1)
    names = products.measured.blocks[0].layers
    steps = [own[block.completions] for block in products.blocks]
    squares = sum(
        np.einsum("r,lrs,s->l", step, block.grams, step) for block, step in zip(products.blocks, steps, strict=True)
    )
    scale = np.sqrt(np.array([sizes[name] for name in names]) / np.where(squares > 0, squares, np.inf))
    return [np.einsum("l,lrs->rs", scale, block.grams) for block in products.blocks]


def angles(gram: np.ndarray) -> np.ndarray:
    """Cosines between different rows."""
    return (gram * inverse_norms(gram))[np.triu_indices(len(gram), 1)]


def effects_of_step(folder: Path, step: int, names: list[str], weights: np.ndarray) -> dict[str, np.ndarray]:
    """Prediction of each rule for each arm's weights at one step of a run: (arms, K) arrays.

    `names` are the K components that score the run. `weights` is an (arms, K) array.
    """
    products = read_products(MeasuredRun(folder, [step]), step, names)
    if isinstance(products, str):
        sys.exit(f"error: {products}")
    shares = products.measured.shares(weights)
    effects = {"covariance": score_covariances(products.measured, weights)}
    effects["map"] = effects_on_other_prompts(products, shares)
    by_layer = replace(products, summed=over_mean_squares(products, sizes_of_layers(folder)))
    effects["by layer"] = effects_on_other_prompts(by_layer, shares)
    with np.load(folder / "preconditioned.npz") as grams:
        if str(step) in grams:
            gram = grams[str(step)].astype(float)
            if np.corrcoef(angles(gram), angles(products.summed[0]))[0, 1] < 0.2:
                sys.exit(f"error: {folder}: the rows of step {step} seem to be in another order")
            under_adam = replace(products, summed=[gram])
            effects["Adam"] = effects_on_other_prompts(under_adam, shares)
    return effects


def predictions(study: StudyFile, root: Path) -> dict[tuple[str, str], dict[str, np.ndarray]]:
    """(K,) predictions of each arm by (rule, window): means over seeds and steps of the other arms' runs."""
    by_arm: dict[tuple[str, str], dict[str, dict[tuple[int, int], np.ndarray]]] = {}
    for run in study.runs:
        names = study.scored_in(run)
        weights = np.array([[arm.weights[name] for name in names] for arm in study.arms])
        steps = sorted(pd.read_parquet(root / run.folder / "gradients.parquet", columns=["step"])["step"].unique())
        for step in steps:
            effects_of_rules = effects_of_step(root / run.folder, int(step), names, weights)
            for window, (low, high) in WINDOWS.items():
                if low * steps[-1] < step <= high * steps[-1]:
                    for rule, effects in effects_of_rules.items():
                        of_arm = by_arm.setdefault((rule, window), {}).setdefault(run.arm, {})
                        of_arm[run.seed, int(step)] = on_all_components(effects, names, study)
    return {
        key: {
            arm: mean_of_known(np.array(list(values.values())), 0)[0]
            for arm, values in predictions_by_arm(study, effects).items()
        }
        for key, effects in by_arm.items()
    }


def observed(study: StudyFile, root: Path) -> pd.DataFrame:
    """Change of each component that scores an arm: mean over seeds."""
    rows = []
    for arm in study.arms:
        rollouts = {
            run.seed: pd.read_parquet(root / run.folder / "rollouts.parquet") for run in study.runs_of(arm.name)
        }
        for name in study.scored_by_arm[arm.name]:
            by_seed = [of.groupby("step")[f"score_{name}"].mean().to_numpy() for of in rollouts.values()]
            change = observed_change(np.array(by_seed), study.confidence).estimate[0]
            rows.append((arm.name, name, float(np.sign(arm.weights[name])), change))
    return pd.DataFrame(rows, columns=["arm", "component", "rewarded", "observed"])


def compared(study: StudyFile, root: Path) -> list[dict[str, Any]]:
    """Rank correlation of each rule and window, and its difference to that of the covariance from the first tenth."""
    check, predicted = observed(study, root), predictions(study, root)

    def column(values: dict[str, np.ndarray]) -> list[float]:
        return [
            values[arm][study.components.index(name)]
            for arm, name in zip(check["arm"], check["component"], strict=True)
        ]

    free = column(predicted["covariance", "first tenth"])
    rows = []
    for (rule, window), values in predicted.items():
        of_rule = check.assign(predicted=column(values), covariance=free)
        if (rule, window) == ("covariance", "first tenth"):
            of_rule["covariance"] = of_rule["rewarded"]  # it is compared with the indicator instead
        table = agreement_table(of_rule, study.confidence)
        for row in table[table["rule"].isin(["predicted", "rewarded"])].to_dict("records"):
            name = rule if row["rule"] == "predicted" else "rewarded"
            rows.append({**row, "rule": name, "window": window})
    return rows


def benchmark(folder: Path, log: Callable[[str], None]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name in CONFIGS:
        own = folder / name.replace(" ", "_")
        own.mkdir(exist_ok=True)
        root = inputs_of(own, name)
        study = read_study(root / "study.json")
        seconds = []
        for run in study.runs:
            seconds.append(train(root, run, study.inputs, root / run.folder))
            log(f"{name}: {run.name}: {seconds[-1]} CPU seconds")
        result[name] = {"rows": compared(study, root), "seconds": sum(seconds)}
        if name == PRICED:
            result[name]["ratio"] = price(root, study)
    return result


def price(root: Path, study: StudyFile) -> float:
    """CPU time of a run that keeps moments over that of one that does not: median over `TURNS` pairs."""
    ratios = []
    for turn in range(TURNS):
        kept, bare = (
            train(root, study.runs[0], study.inputs, root / f"timed{turn}_{name}", plain=name == "bare")
            for name in ("kept", "bare")
        )
        ratios.append(kept / bare)
    return statistics.median(ratios)


def table(result: dict[str, Any]) -> str:
    """The result as Markdown."""
    lines = [
        "| study | rule | steps | components that the arm does not reward | difference to the covariance "
        "| components that it rewards | all changes |"
    ]
    lines += ["| --- " * 7 + "|"]
    for name, of_study in result.items():
        rows = pd.DataFrame(of_study["rows"])
        rows = rows[rows["rule"] != "rewarded"].pivot(index=["rule", "window"], columns="cells")
        for rule, words in RULES.items():
            for window in WINDOWS:
                row = rows.loc[(rule, window)]
                free = (rule, window) == ("covariance", "first tenth")
                cells = [number(row, kind, "estimate", "low", "high") for kind in CELLS]
                ahead = "" if free else number(row, "unrewarded", "ahead", "ahead_low", "ahead_high")
                lines.append(f"| {name} | {words} | {window} | {cells[0]} | {ahead} | {cells[1]} | {cells[2]} |")
        indicator = pd.DataFrame(of_study["rows"]).query("rule == 'rewarded' and cells == 'all'").iloc[0]
        lines.append(f"| {name} | whether the arm rewards the component | | | | | {indicator['estimate']:.2f} |")
    counts = {
        name: pd.DataFrame(of_study["rows"]).groupby("cells")["changes"].max() for name, of_study in result.items()
    }
    sizes = "; ".join(
        f"{name}: {of['unrewarded']} not rewarded, {of['rewarded']} rewarded" for name, of in counts.items()
    )
    times = ", ".join(f"{name} {of['seconds']:.0f} CPU seconds" for name, of in result.items())
    ratio = f"{result[PRICED]['ratio']:.2f} times the CPU time of a run that keeps no moments"
    note = f"Training that keeps Adam's moments took: {times}. A run of the {PRICED} takes {ratio}."
    return "\n".join([*lines, "", f"Number of changes: {sizes}. {note}"])


def number(row: pd.Series, cells: str, *names: str) -> str:
    """A correlation with its interval."""
    value, low, high = (float(row[name, cells]) for name in names)
    return "" if np.isnan(value) else f"{value:.2f} ({low:.2f} to {high:.2f})".replace("-", "\u2212")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--folder", type=Path, help="keep the trained runs here, and reuse those that it holds")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        result = benchmark(folder.resolve(), lambda line: print(line, file=sys.stderr, flush=True))
    arguments.json.write_text(json.dumps(result, indent=1))
    print(table(result))


if __name__ == "__main__":
    main()
