"""`python -m reward_ablation.analysis.provenance ...`: write what trained the runs of a study."""

from __future__ import annotations

from collections.abc import Sequence

from reward_ablation.analysis.provenance.schemas import SCHEMAS
from reward_ablation.analysis.provenance.tables import check_not_mixed, provenance, write_digests, write_page
from reward_ablation.analysis.runs import read_runs
from reward_ablation.analysis.study_file import read_study
from reward_ablation.analysis.tables import table_parser, write_tables
from reward_ablation.study.provenance import quantities
from reward_ablation.system.errors import one_line_errors, storage_errors


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the table `provenance` and its page of the report. All other tables of a study wait for this table."""
    parser = table_parser("reward_ablation.analysis.provenance", main.__doc__)
    parser.add_argument(
        "--mixed-provenance", choices=["tell", "refuse"], default="tell", help="runs that differ in code or hardware"
    )
    options = parser.parse_args(arguments)
    study = read_study(options.study)
    with storage_errors(options.output):
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
