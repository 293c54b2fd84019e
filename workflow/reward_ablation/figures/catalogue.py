"""The catalogue of figures: name, category, tables and title of each.

A figure NAME is drawn by the function NAME in the module of its category. The function takes the tables in the order
given here, then the study. The caption is `workflow/report/NAME.rst`. The Snakefile imports this module, so it must
import quickly.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from reward_ablation.analysis.registry import OF_TIMES, ON_REQUEST, TABLES, file_of


class Entry(NamedTuple):
    """A figure of the catalogue."""

    category: str  # in the report; in lower case, it is the figure's module
    tables: tuple[str, ...]  # that the figure is drawn from
    title: str  # on its page, in the contents and in the report


#: The table by which figures choose which arms they show if a study has many arms.
ARMS_TABLE = "evaluation_by_arm"

#: The figures by name, in the order of the pages.
FIGURES = {
    "rewards": Entry("Training", ("rewards_by_step", ARMS_TABLE), "Rewards and length over training"),
    "signals": Entry("Training", ("signals_by_step", ARMS_TABLE), "Training signal by step"),
    "method_weights": Entry("Training", ("method_weights",), "Weights and conflicts of combination methods"),
    "primary": Entry("Evaluation", ("paired_differences", "evaluation_by_arm"), "Primary comparison"),
    "evaluation": Entry("Evaluation", ("evaluation_by_arm",), "Evaluation of the final models"),
    "arms": Entry("Evaluation", ("evaluation_by_arm",), "Evaluation against the weights of the arms"),
    "differences": Entry("Evaluation", ("paired_differences", ARMS_TABLE), "Differences to the baseline"),
    "effects": Entry("Evaluation", ("component_effects",), "Effect of each component on the metrics"),
    "by_level": Entry("Evaluation", ("differences_by_level",), "Primary comparison by level and subject"),
    "learning_curves": Entry("Evaluation", ("learning_curves", ARMS_TABLE), "Evaluation over training"),
    "similarity_parts": Entry(
        "Gradients", ("similarity_by_arm", ARMS_TABLE), "Gradient similarity of components and its parts"
    ),
    "similarity_steps": Entry(
        "Gradients", ("similarity_by_step", ARMS_TABLE), "Gradient similarity across prompts over training"
    ),
    "alignment": Entry("Gradients", ("alignment", ARMS_TABLE), "What the trained steps do to each component"),
    "methods_offline": Entry(
        "Gradients",
        ("methods_offline", ARMS_TABLE),
        "Steps that each combination would take on the baseline's completions",
    ),
    "cost": Entry("Cost", ("cost",), "Cost of training by arm"),
}

#: Figures in all.pdf, in the order of its pages: the question and its answer, what differs, and how training went.
PAGES = ["primary", "arms", "effects", "learning_curves", "rewards", "alignment", "similarity_parts"]

#: Figures that all.pdf has behind them where the study asks for an appendix. A figure that shows times is in the report
#: only, so that equal studies have equal files.
APPENDIX = [name for name, entry in FIGURES.items() if name not in PAGES and not OF_TIMES & {*entry.tables}]


def figures_of(asked: Collection[str], empty: Collection[str] = ()) -> dict[str, Entry]:
    """Figures whose tables a study makes: `asked` has rules of `ON_REQUEST`, `empty` those without rows."""
    missing = ON_REQUEST.difference(asked)
    return {
        name: entry
        for name, entry in FIGURES.items()
        if not missing & {TABLES[table] for table in entry.tables} and TABLES[entry.tables[0]] not in empty
    }


def pages_of(asked: Collection[str], appendix: bool = False, empty: Collection[str] = ()) -> list[str]:
    """Figures of a study that are in all.pdf, with or without the appendix; the rest as in `figures_of`."""
    return [name for name in [*PAGES, *(APPENDIX if appendix else [])] if name in figures_of(asked, empty)]


def module_of(figure: str) -> str:
    """Module below the library that draws a figure, such as `figures.training`."""
    return f"figures.{FIGURES[figure].category.lower()}"


def tables_of(figure: str) -> list[str]:
    """Files that a figure is drawn from, relative to the folder of the tables."""
    return [file_of(table) for table in FIGURES[figure].tables]
