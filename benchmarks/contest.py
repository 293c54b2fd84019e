"""Do methods of combination beat static weights? The contest of config/presets/combinations_small.yaml.

    python benchmarks/contest.py --json FILE [--study results/combinations_small/study.json]

Without a finished study the preset is run first, for half an hour on two cores. Static weights trade accuracy for short
completions. For each seed, an isotonic regression fits the accuracy of the static arms as a function of their mean
length that never falls. Straight lines connect the fitted arms. The distance of a method is its accuracy minus the
fitted accuracy at the method's length: above 0, no static weights of the contest do as well at this length. Intervals
use Student's t over seeds.

A second table compares trained arms with a prediction from the baseline's runs alone: the rank correlation, over arms,
of the gains in the table `methods_offline` with the differences to the baseline that the trained arms show.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import isotonic_regression
from scipy.stats import spearmanr
from scipy.stats import t as student

ROOT = Path(__file__).parents[1]
PRESET = ROOT / "config/presets/combinations_small.yaml"
CONFIDENCE = 0.95
#: Metrics that the table shows beside the distance. Weights trade the first metric for the last.
METRICS = ["accuracy_strict", "format", "tokens"]
#: Components with the evaluation metric that each component moves, and the sign of this effect.
FOLLOWED = {"correctness": ("right", 1), "format": ("marked", 1), "length": ("tokens", -1)}


def distance(static: pd.DataFrame, method: pd.Series) -> float:
    """Accuracy of a method above the line through the static arms at the method's length, for one seed."""
    arms = static.sort_values("tokens")
    line = isotonic_regression(arms["accuracy_strict"].to_numpy()).x
    return float(method["accuracy_strict"] - np.interp(method["tokens"], arms["tokens"], line))


def measure(study: Path) -> list[dict[str, Any]]:
    """One row per arm: means over seeds, and for methods the distance with its interval."""
    arms = {arm["name"]: arm.get("combine", "weighted_sum") for arm in json.loads(study.read_text())["arms"]}
    runs = pd.read_parquet(study.parent / "tables/evaluation_by_run.parquet")
    runs = runs[(runs["mode"] == "sampled") & runs["seed"].notna()]
    by_seed = runs.pivot_table(index=["seed", "arm"], columns="metric", values="value")[METRICS]
    static = [name for name, method in arms.items() if method == "weighted_sum"]
    rows = []
    for name, method in arms.items():
        row = {"arm": name, "method": method, **by_seed.xs(name, level="arm").mean().to_dict()}
        if name not in static:
            seeds = by_seed.index.unique("seed")
            apart = np.array([distance(by_seed.loc[seed].loc[static], by_seed.loc[(seed, name)]) for seed in seeds])
            margin = student.ppf((1 + CONFIDENCE) / 2, len(seeds) - 1) * apart.std(ddof=1) / np.sqrt(len(seeds))
            row |= {"distance": apart.mean(), "low": apart.mean() - margin, "high": apart.mean() + margin}
        rows.append(row)
    return sorted(rows, key=lambda row: -row["accuracy_strict"])


def predicted_gains(study: Path) -> list[dict[str, Any]]:
    """One row per component: rank correlations of gains predicted offline with the differences of trained arms."""
    written = json.loads(study.read_text())
    baseline = written["baseline"]
    methods = [arm["name"] for arm in written["arms"] if arm.get("combine", "weighted_sum") != "weighted_sum"]
    offline = pd.read_parquet(study.parent / "tables/methods_offline.parquet").query("quantity == 'gain'")
    gains = offline.pivot(index="method", columns="component", values="estimate").drop(index=baseline)
    trained = pd.read_parquet(study.parent / "tables/paired_differences.parquet")
    trained = trained[(trained["mode"] == "sampled") & (trained["baseline"] == baseline)]
    differences = trained.pivot(index="arm", columns="metric", values="estimate").loc[gains.index]
    rows = []
    for component, (metric, sign) in FOLLOWED.items():
        predicted, measured = gains[component], sign * differences[metric]
        of_methods = spearmanr(predicted[methods], measured[methods]).statistic
        same_sign = int((predicted * measured > 0).sum())
        rank = spearmanr(predicted, measured).statistic
        rows.append({"component": component, "metric": metric, "rank": rank, "of_methods": of_methods})
        rows[-1] |= {"same_sign": same_sign, "arms": len(gains), "methods": len(methods)}
    return rows


def table(result: dict[str, Any]) -> str:
    """The result in Markdown, arms by accuracy."""
    lines = ["| arm | combination | strict accuracy | format | tokens | above static weights |", "| --- " * 6 + "|"]
    for row in result["rows"]:
        known = "distance" in row
        above = f"{row['distance']:.3f} [{row['low']:.3f}, {row['high']:.3f}]".replace("-", "−") if known else ""
        means = f"{row['accuracy_strict']:.3f} | {row['format']:.3f} | {row['tokens']:.1f}"
        lines.append(f"| `{row['arm']}` | {row['method']} | {means} | {above} |")
    first = result["predicted"][0]
    lines += [
        "",
        f"| component | metric | rank correlation, {first['arms']} arms | {first['methods']} methods | same sign |",
    ]
    lines.append("| --- " * 5 + "|")
    for row in result["predicted"]:
        ranks = f"{row['rank']:.2f} | {row['of_methods']:.2f}".replace("-", "−")
        lines.append(f"| {row['component']} | `{row['metric']}` | {ranks} | {row['same_sign']} of {row['arms']} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--study", type=Path, help="study.json of a finished contest; default: run the preset")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.study is None:
            command = ["snakemake", "--snakefile", ROOT / "Snakefile", "--configfile", PRESET, "--cores", "2"]
            subprocess.run([str(Path(sys.executable).parent / command[0]), *command[1:]], check=True, cwd=folder)
        study = options.study or Path(folder) / "results/combinations_small/study.json"
        result = {"rows": measure(study), "predicted": predicted_gains(study)}
    options.json.write_text(json.dumps(result, indent=2) + "\n")
    print(table(result))


if __name__ == "__main__":
    main()
