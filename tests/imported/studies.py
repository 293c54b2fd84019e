"""Imported studies for the tests: a made-up study's files as other systems would have written them."""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.made_up import MadeUpStudy
from reward_ablation.config.config_errors import validate_spec
from reward_ablation.imported.config import ImportConfig
from reward_ablation.imported.results import write_results
from reward_ablation.system.files import write_parquet

WEIGHTS = {
    "full": {"correctness": 1.0, "format": 0.5},
    "no_format": {"correctness": 1.0, "format": 0.0},
    "no_correctness": {"correctness": 0.0, "format": 0.5},
}


def made_up(root: Path, **changes: Any) -> tuple[Path, list[dict[str, Any]]]:
    """The folder of a made-up study of three arms, and its runs."""
    study = MadeUpStudy(arms=WEIGHTS, **{"steps": 6, "problems": 2, **changes})
    study.write(root / "original")
    return root / "original", study.plan()["runs"]


def as_trl(original: Path, run: dict[str, Any], folder: Path) -> None:
    """The rollouts of a run as TRL's `log_completions` writes them."""
    rollouts = pd.read_parquet(original / run["folder"] / "rollouts.parquet")
    (folder / "completions").mkdir(parents=True)
    for step, rows in rollouts.groupby("step"):
        scores = {name: rows[f"score_{name}"] for name in ("correctness", "format")}
        columns = {"step": step, "prompt": rows["problem_id"], "completion": rows["completion"], **scores}
        table = pd.DataFrame({**columns, "advantage": rows["advantage"]}).reset_index(drop=True)
        table.to_parquet(folder / "completions" / f"completions_{step:05d}.parquet")


def trl_study(root: Path, **keys: Any) -> dict[str, Any]:
    """A study of two arms in TRL's files, below `root`, and the content of its YAML."""
    original, runs = made_up(root)
    arms: dict[str, Any] = {arm: {"weights": WEIGHTS[arm], "seeds": {}} for arm in WEIGHTS}
    for run in runs:
        as_trl(original, run, root / "trl" / run["arm"] / f"s{run['seed']}")
        arms[run["arm"]]["seeds"][run["seed"]] = f"trl/{run['arm']}/s{run['seed']}"
    return {
        "name": "mine",
        "arms": {"design": "imported", "runs": arms},
        "rollouts": {"format": "trl"},
        "bootstrap": 200,
        **keys,
    }


def answers(root: Path, original: Path, runs: list[dict[str, Any]], **further: Any) -> dict[str, Any]:
    """The section `evaluation` with the answers of a made-up study as lines of JSON."""
    files: dict[str, Any] = {}
    for model in ["base", *(run["folder"].removeprefix("runs/") for run in runs)]:
        table = pd.read_parquet(original / "evaluation" / model / "gsm8k_test.parquet")
        greedy = table[table["mode"] == "greedy"][["problem_id", "correct_strict", "completion", "tokens"]]
        file = root / "answers" / f"{model.replace('/', '-')}.jsonl"
        file.parent.mkdir(exist_ok=True)
        file.write_text("".join(json.dumps(row) + "\n" for row in greedy.to_dict("records")))
        files[model] = str(file.relative_to(root))
    of_arms = {
        arm: {run["seed"]: files[run["folder"].removeprefix("runs/")] for run in runs if run["arm"] == arm}
        for arm in WEIGHTS
    }
    columns = {"problem": "problem_id", "correct": "correct_strict", "completion": "completion"}
    columns |= {"metrics": {"tokens": "tokens"}}
    section = {"format": "table", "mode": "greedy", "dataset": "gsm8k_test", "columns": columns}
    return {**section, "runs": {"base": files["base"], **of_arms}, **further}


def imported(root: Path, study: dict[str, Any]) -> Path:
    """The results folder of an imported study, without tables."""
    config = validate_spec(ImportConfig, study, "study.yaml")
    write_results(config, root, root / config.root, {})
    return root / config.root


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    """A table as Parquet or lines of JSON, by its ending."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        write_parquet(pd.DataFrame(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
