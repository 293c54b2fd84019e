"""`python -m reward_ablation.analysis.evaluation ...`: write the tables of evaluated models."""

from __future__ import annotations

from collections.abc import Sequence

from reward_ablation.analysis.evaluation.examples import write_examples_page
from reward_ablation.analysis.evaluation.schemas import SCHEMAS
from reward_ablation.analysis.evaluation.tables import evaluation_tables
from reward_ablation.analysis.study_file import read_study
from reward_ablation.analysis.tables import table_parser, write_tables
from reward_ablation.system.errors import one_line_errors, storage_errors


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the tables of evaluated models and the page of examples, from the answers of all models."""
    options = table_parser("reward_ablation.analysis.evaluation", main.__doc__).parse_args(arguments)
    study = read_study(options.study)
    with storage_errors(options.output):
        tables = evaluation_tables(study, options.study.parent)
        write_tables(tables, SCHEMAS, options.output)
        write_examples_page(tables["examples"], study, options.output / "examples.html")


if __name__ == "__main__":
    with one_line_errors():
        main()
