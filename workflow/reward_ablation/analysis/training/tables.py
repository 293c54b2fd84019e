"""Tables of training, from the rollouts of all runs of a study."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from reward_ablation.analysis.correct_completions import correctness_component
from reward_ablation.analysis.reading import read_parquet
from reward_ablation.analysis.runs import read_runs
from reward_ablation.analysis.signal_rows import signal_rows
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.tables import joined
from reward_ablation.analysis.training.component_correlations import component_correlations, pair_sums
from reward_ablation.analysis.training.rewards_by_step import rewards_by_step
from reward_ablation.analysis.training.sampling_gaps import sampling_gaps
from reward_ablation.analysis.training.schemas import SCHEMAS
from reward_ablation.analysis.training.signals_by_step import step_signals, thinned
from reward_ablation.config.grpo_settings import COMPLETION_LENGTH


def training_tables(study: StudyFile, root: Path) -> dict[str, pd.DataFrame]:
    """Tables of rewards and of the training signal: rewards_by_step, signals_by_step, component_correlations,
    sampling_gaps. The runs' records and rollouts are checked first."""
    read_runs(study, root, ["rollouts.parquet"])
    names = study.components
    of_components = [f"{column}_{name}" for column in ("score", "advantage") for name in names]
    columns = ["step", "problem_id", "total", "advantage", "tokens", "truncated", *of_components]
    columns += ["sampling_gap", "sampling_corrected"]
    correctness = correctness_component(study)
    rewards, signals, gaps = [], [], []
    sums: dict[str, dict[int, pd.DataFrame]] = {}
    for run in study.runs:
        rollouts = read_parquet(root / run.folder / "rollouts.parquet", columns)
        weights = {name: run.spec.weights[name] for name in names}
        aggregation = run.spec.training.get("multi_objective_aggregation", "sum_then_normalize")
        single = run.spec.training.get("num_generations") == 1
        of_run = thinned(step_signals(rollouts, weights, aggregation, correctness, single))
        rewards.append(rewards_by_step(rollouts, names).assign(arm=run.arm, seed=run.seed))
        signals.append(signal_rows(of_run).assign(arm=run.arm, seed=run.seed))
        longest = run.spec.training.get("max_completion_length", COMPLETION_LENGTH)
        gaps.append(sampling_gaps(rollouts, longest).assign(arm=run.arm, seed=run.seed))
        sums.setdefault(run.arm, {})[run.seed] = pair_sums(rollouts, names, single)
    correlations = [
        component_correlations(sums[arm], arm, study.bootstrap, study.confidence)
        for arm in study.arm_names
        if arm in sums
    ]
    return {
        "rewards_by_step": joined(SCHEMAS["rewards_by_step"], rewards),
        "signals_by_step": joined(SCHEMAS["signals_by_step"], signals),
        "component_correlations": joined(SCHEMAS["component_correlations"], correlations),
        "sampling_gaps": joined(SCHEMAS["sampling_gaps"], gaps),
    }
