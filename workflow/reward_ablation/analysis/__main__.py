"""Command that writes the tables of one rule: `python -m reward_ablation.analysis RULE --study FILE --output FOLDER`.

Each rule `tables_NAME` of `workflow/rules/tables.smk` runs it as a job. It imports the module that makes the tables by
name, because the tables of costs are in a package above this one.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from reward_ablation.analysis.registry import RULES
from reward_ablation.analysis.study_file import read_study
from reward_ablation.system.errors import one_line_errors, storage_errors
from reward_ablation.system.locks import wait_for


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the tables of a rule, and its page of the report."""
    parser = argparse.ArgumentParser(prog="python -m reward_ablation.analysis", description=main.__doc__)
    parser.add_argument("rule", choices=RULES)
    parser.add_argument(
        "--mixed-provenance",
        choices=["tell", "refuse"],
        default="tell",
        help="for provenance: what to do where runs differ in code or hardware",
    )
    parser.add_argument("--study", type=Path, required=True, help="study.json, in the study's results folder")
    parser.add_argument("--output", type=Path, required=True, help="folder of the study's tables")
    options = parser.parse_args(arguments)
    gc.disable()  # a large study is millions of objects that last; to look through them again takes seconds
    # The job of a killed Snakemake may still be at work: what it read is out of date, and must not be written last.
    lock = options.output.absolute().with_name(f".tables_{options.rule}.lock")
    with storage_errors(options.output), wait_for(lock, "tables"):
        import_module(f"reward_ablation.{RULES[options.rule].module}").write(read_study(options.study), options)
    gc.enable()


if __name__ == "__main__":
    with one_line_errors():
        main()
