"""Which figures there are, from which tables each is drawn, and what the report calls it.

The function that draws a figure has the figure's name, in the module of that name in the figure's room, and takes the
tables in this order and then the study. Its caption is `workflow/report/NAME.rst`. Light: the Snakefile reads this.
"""

from __future__ import annotations

from typing import NamedTuple

from reward_ablation.analysis.registry import OF_TIMES, file_of


class Entry(NamedTuple):
    """A figure of the catalogue."""

    room: str
    """Folder of its module below `figures`; empty where that is `figures` itself."""

    tables: tuple[str, ...]
    """Names of the tables that it reads."""

    category: str
    """Category of the report."""

    title: str
    """Its heading on the page, in the contents and in the report."""


#: By name, in the order of the pages.
FIGURES = {
    "rewards": Entry("training", ("rewards_by_step",), "Training", "Rewards over training"),
    "length": Entry("training", ("rewards_by_step",), "Training", "Completion length over training"),
    "signals": Entry("training", ("signals_by_step",), "Training", "Training signal by step"),
    "predictors": Entry("training", ("predictors",), "Training", "What tells how a component changes afterwards"),
    "evaluation": Entry("evaluation", ("evaluation_by_arm",), "Evaluation", "Evaluation of the final models"),
    "arms": Entry("evaluation", ("evaluation_by_arm",), "Evaluation", "Accuracy against the weights of the arms"),
    "differences": Entry("evaluation", ("paired_differences",), "Evaluation", "Differences to the baseline"),
    "effects": Entry("evaluation", ("component_effects",), "Evaluation", "Effects of the components"),
    "pareto": Entry("evaluation", ("evaluation_by_arm",), "Evaluation", "Accuracy against completion length"),
    "learning_curves": Entry("evaluation", ("learning_curves",), "Evaluation", "Evaluation over training"),
    "problem_curves": Entry("evaluation", ("problem_curves",), "Evaluation", "Accuracy over steps for single problems"),
    "examples": Entry("evaluation", ("examples",), "Evaluation", "Examples of answers"),
    "similarity_steps": Entry(
        "gradients", ("similarity_by_step",), "Gradients", "Gradient similarity of components over training"
    ),
    "similarity_parts": Entry(
        "gradients", ("similarity_by_arm",), "Gradients", "Parts of the gradient similarity of components"
    ),
    "similarity_layers": Entry(
        "gradients", ("similarity_by_arm",), "Gradients", "Gradient similarity of components by layer"
    ),
    "similarity_heatmap": Entry(
        "gradients", ("similarity_by_step",), "Gradients", "Gradient similarity of components by layer and step"
    ),
    "what_if": Entry(
        "gradients",
        ("what_if", "what_if_points", "what_if_check"),
        "Gradients",
        "First-order effect of the weights on each component",
    ),
    "what_if_check": Entry(
        "gradients", ("what_if_check",), "Gradients", "Predicted and observed changes of the components"
    ),
    "cost": Entry("", ("cost",), "Cost", "Cost of training by arm"),
}

#: What all.pdf holds. A figure of times is in the report only, so that equal studies have equal files.
PAGES = [name for name, entry in FIGURES.items() if not OF_TIMES & {*entry.tables}]


def module_of(figure: str) -> str:
    """Module that draws a figure, below the library, such as `figures.training.rewards`."""
    return ".".join(filter(None, ["figures", FIGURES[figure].room, figure]))


def tables_of(figure: str) -> list[str]:
    """Files that a figure is drawn from, below the folder of the tables."""
    return [file_of(table) for table in FIGURES[figure].tables]
