"""`python -m reward_ablation.analysis.claims ...`: write the table of claims and its page."""

from __future__ import annotations

from argparse import Namespace

from reward_ablation.analysis.claims.page import write_claims_page
from reward_ablation.analysis.claims.tables import SCHEMAS, claims_table
from reward_ablation.analysis.reading import read_table
from reward_ablation.analysis.study_file import StudyFile, as_its_runs_say
from reward_ablation.analysis.tables import table_command, write_tables
from reward_ablation.system.errors import one_line_errors


@table_command("analysis.claims")
def main(study: StudyFile, options: Namespace) -> None:
    """Judge the study's claims by the answers of their arms, and write their table and their page of the report."""
    by_run = read_table(options.output / "evaluation_by_run.parquet")
    study = as_its_runs_say(study, options.study.parent)
    claims = claims_table(study, options.study.parent, by_run)
    write_tables({"claims": claims}, SCHEMAS, options.output)
    write_claims_page(claims, study, options.output / "claims.html")


if __name__ == "__main__":
    with one_line_errors():
        main()
