"""`python -m reward_ablation.analysis.provenance ...`: write what trained the runs of a study."""

from __future__ import annotations

from argparse import Namespace

from reward_ablation.analysis.provenance.tables import SCHEMAS, check_not_mixed, provenance, write_digests, write_page
from reward_ablation.analysis.runs import read_runs
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.tables import table_command, write_tables
from reward_ablation.study.provenance import quantities
from reward_ablation.system.errors import one_line_errors

MIXED = {"choices": ["tell", "refuse"], "default": "tell", "help": "what to do where runs differ in code or hardware"}


@table_command("analysis.provenance", ("--mixed-provenance", MIXED))
def main(study: StudyFile, options: Namespace) -> None:
    """Write the table `provenance` and its page of the report. All other tables of a study wait for this table."""
    records = read_runs(study, options.study.parent)
    table = provenance(study, {folder: quantities(record.model_dump()) for folder, record in records.items()})
    if options.mixed_provenance == "refuse":
        check_not_mixed(table)
    write_tables({"provenance": table}, SCHEMAS, options.output)
    write_page(table, study, options.output / "provenance.html")
    write_digests(records, options.study.parent, options.output / "runs.sha256")


if __name__ == "__main__":
    with one_line_errors():
        main()
