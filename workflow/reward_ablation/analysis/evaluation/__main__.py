"""`python -m reward_ablation.analysis.evaluation ...`: write the tables of evaluated models."""

from __future__ import annotations

from argparse import Namespace

from reward_ablation.analysis.evaluation.examples import write_examples_page
from reward_ablation.analysis.evaluation.tables import SCHEMAS, evaluation_tables
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.tables import table_command, write_tables
from reward_ablation.system.errors import one_line_errors


@table_command("analysis.evaluation")
def main(study: StudyFile, options: Namespace) -> None:
    """Write the tables of evaluated models and the page of examples, from the answers of all models."""
    tables = evaluation_tables(study, options.study.parent)
    write_tables(tables, SCHEMAS, options.output)
    write_examples_page(tables["examples"], study, options.output / "examples.html")


if __name__ == "__main__":
    with one_line_errors():
        main()
