"""Names of the files that a study exports in the layouts of other systems."""

from __future__ import annotations

from collections.abc import Iterable


def exported_files(layouts: Iterable[str], runs: Iterable[str], datasets: list[str]) -> list[str]:
    """Exported files of all runs, below the results folder.

    `layouts` are names of systems, and `datasets` are names of evaluation sets.
    """
    answers = [f"eval_{moment}_{name}.jsonl" for moment in ("before", "after") for name in datasets]
    of_layout = {
        "rldynamics": ["all_rewards.json"],
        "simple_grpo": ["rollouts.jsonl", *answers, "evaluation.json"],
    }
    names = list(runs)
    return [
        f"exports/{layout}/{run}/{file}"
        for layout in dict.fromkeys(layouts)
        for run in names
        for file in of_layout[layout]
    ]
