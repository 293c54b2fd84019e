"""`python -m reward_ablation.figures FIGURE ...`: draw one figure as PDF and PNG, or join `all` of them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from reward_ablation.analysis.study_file import StudyFile, read_study
from reward_ablation.analysis.tables import read_table
from reward_ablation.figures.evaluation.arms import arms
from reward_ablation.figures.evaluation.evaluation import evaluation
from reward_ablation.figures.files import merge, save_pdf, save_png
from reward_ablation.figures.gradients.similarity_layers import similarity_layers
from reward_ablation.figures.gradients.similarity_parts import similarity_parts
from reward_ablation.figures.gradients.similarity_steps import similarity_steps
from reward_ablation.figures.title_page import title_page
from reward_ablation.figures.training.length import length
from reward_ablation.figures.training.rewards import rewards
from reward_ablation.study.errors import one_line_errors, storage_errors

#: Figure: its function and the table that it shows.
FIGURES = {
    "rewards": (rewards, "rewards_by_step"),
    "length": (length, "rewards_by_step"),
    "evaluation": (evaluation, "evaluation_by_arm"),
    "arms": (arms, "evaluation_by_arm"),
    "similarity_steps": (similarity_steps, "similarity_by_step"),
    "similarity_parts": (similarity_parts, "similarity_by_arm"),
    "similarity_layers": (similarity_layers, "similarity_by_arm"),
}


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m reward_ablation.figures", description=__doc__)
    commands = parser.add_subparsers(dest="figure", required=True)
    for name in [*FIGURES, "all"]:
        command = commands.add_parser(name)
        command.add_argument("--study", type=Path, required=True, help="study.json: the resolved study")
        command.add_argument("--tables", type=Path, required=True, help="folder of the study's tables")
        command.add_argument("--output", type=Path, required=True, help="the PDF to write")
        if name == "all":
            command.add_argument("--pages", type=Path, nargs="+", required=True, help="PDFs of the figures, in order")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw one figure, or a title page followed by all of them."""
    options = parse(arguments)
    with storage_errors(options.output):
        make(options, read_study(options.study))


def make(options: argparse.Namespace, study: StudyFile) -> None:
    """Make what the command line asks for."""
    if options.figure == "all":
        with TemporaryDirectory() as folder:
            first = Path(folder) / "study.pdf"
            save_pdf(title_page(study, read_table("provenance", options.tables)), first, study.name)
            merge([first, *options.pages], options.output)
        return
    draw, table = FIGURES[options.figure]
    figure = draw(read_table(table, options.tables), study)
    save_pdf(figure, options.output, f"{study.name}: {options.figure}")
    save_png(figure, options.output.with_suffix(".png"))


if __name__ == "__main__":
    with one_line_errors():
        main()
