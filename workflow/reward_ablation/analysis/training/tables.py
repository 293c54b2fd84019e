"""Tables of training, from the rollouts of all runs of a study."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from reward_ablation.analysis.reading import read_parquet
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.tables import joined
from reward_ablation.analysis.training.component_correlations import component_correlations, pair_sums
from reward_ablation.analysis.training.correct_completions import correctness_component
from reward_ablation.analysis.training.predictors import predictors
from reward_ablation.analysis.training.reward_hacking import reward_hacking
from reward_ablation.analysis.training.rewards_by_step import rewards_by_step
from reward_ablation.analysis.training.sampling_gaps import sampling_gaps
from reward_ablation.analysis.training.signals_by_step import signals_by_step, step_signals, thinned
from reward_ablation.config.grpo_settings import COMPLETION_LENGTH


def training_tables(study: StudyFile, root: Path) -> dict[str, pd.DataFrame]:
    """Tables of rewards and of the training signal: rewards_by_step, signals_by_step, component_correlations,
    sampling_gaps."""
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
        signals.append(signals_by_step(of_run).assign(arm=run.arm, seed=run.seed))
        longest = run.spec.training.get("max_completion_length", COMPLETION_LENGTH)
        gaps.append(sampling_gaps(rollouts, longest).assign(arm=run.arm, seed=run.seed))
        sums.setdefault(run.arm, {})[run.seed] = pair_sums(rollouts, names, single)
    correlations = [
        component_correlations(sums[arm], arm, study.bootstrap, study.confidence)
        for arm in study.arm_names
        if arm in sums
    ]
    return {
        "rewards_by_step": joined("rewards_by_step", rewards),
        "signals_by_step": joined("signals_by_step", signals),
        "component_correlations": joined("component_correlations", correlations),
        "sampling_gaps": joined("sampling_gaps", gaps),
    }


def outcome_tables(study: StudyFile, tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """What the signals told of training, and signs of reward hacking: from other tables of the study."""
    signals = pd.concat([tables["signals_by_step"], tables["alignment_by_step"]], ignore_index=True)
    found = predictors(signals, study.arm_names, study.components, study.bootstrap, study.confidence)
    signs = reward_hacking(
        study, tables["rewards_by_step"], tables.get("learning_curves"), tables.get("evaluation_by_arm")
    )
    return {"predictors": joined("predictors", [found]), "reward_hacking": joined("reward_hacking", [signs])}
