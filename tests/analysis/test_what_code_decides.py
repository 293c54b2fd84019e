"""The tables that depend on each package, and whether figures do: an edit of a package makes these again."""

from __future__ import annotations

import pytest

from reward_ablation.analysis.registry import RULES
from reward_ablation.figures.catalogue import FIGURES
from reward_ablation.figures.catalogue import module_of as figure_module
from reward_ablation.study.code_digest import module_digests

#: What each rule of tables, the figures, the file of all figures and the summary run, as their rules say.
STAGES = {
    **{f"tables_{name}": ("analysis", rule.module) for name, rule in RULES.items()},
    "figures": ("figures", *map(figure_module, FIGURES)),
    "all_figures": ("figures.book",),
    "summary": ("report",),
}


def modules_of(stage: str) -> set[str]:
    return set(module_digests(*(f"reward_ablation.{name}" for name in STAGES[stage])))


def decided_by(module: str) -> set[str]:
    """Stages whose digest an edit of a module changes."""
    return {stage for stage in STAGES if f"reward_ablation.{module}" in modules_of(stage)}


@pytest.mark.parametrize(
    ("module", "stages"),
    [
        ("analysis.gradients.tables", {"tables_gradients"}),
        ("analysis.training", {"tables_training"}),
        ("analysis.evaluation.tables", {"tables_evaluation"}),
        ("analysis.evaluation.answers", {"tables_evaluation", "tables_claims"}),
        ("analysis.claims", {"tables_claims"}),
        ("analysis.claims_text", {"tables_claims", "summary"}),
        ("analysis.reward_hacking", {"tables_reward_hacking"}),
        (
            "analysis.provenance",
            {*(f"tables_{rule}" for rule in ("provenance", "evaluation", "claims")), "all_figures", "summary"},
        ),
        ("cluster.slurm", set()),
        ("cluster.command", {"tables_cost"}),
        ("report.cost.accounting", {"tables_cost"}),
        ("report.cost.columns", {"tables_cost", "figures", "summary"}),
        ("figures.catalogue", {"figures", "all_figures"}),
        ("figures.book", {"all_figures"}),
        ("figures.training", {"figures"}),
        ("figures.findings", {"figures"}),
        ("figures.style", {"figures", "all_figures"}),
        ("report.summary", {"summary"}),
        ("analysis.tables", {*(f"tables_{rule}" for rule in RULES), "figures", "all_figures", "summary"}),
    ],
)
def test_an_edit_changes_the_digest_of_what_runs_the_module_and_of_nothing_else(module, stages):
    assert decided_by(module) == stages


@pytest.mark.parametrize("stage", [stage for stage in STAGES if stage != "tables_cost"])
def test_only_the_table_of_costs_runs_code_of_the_cluster(stage):
    assert not [name for name in modules_of(stage) if name.startswith("reward_ablation.cluster")]
