"""The tables, figures and summary of a described study: the finished part of a study, or imported runs.

Only `reward-ablation preview` and `reward-ablation import` start this workflow. It works in the folder `.work` of the
described study, where `rules.json` says what there is.
"""

import os
import sys
from pathlib import Path

from reward_ablation.analysis.registry import files_of
from reward_ablation.figures.catalogue import (
    figures_of,
    module_of,
    pages_of,
    tables_of,
)
from reward_ablation.report.policy import guard_report
from reward_ablation.start.described import RULES, DescribedStudy
from reward_ablation.start.job_commands import shell_prefix
from reward_ablation.study.core_digest import code_of

study = DescribedStudy.read(Path(RULES))
guard_report()


pathvars:
    results="..",
    logs="../logs",
    benchmarks="../logs/benchmarks",


shell.prefix(shell_prefix(Path(sys.executable).parent))
os.environ.update(CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1")


report: "report/workflow.rst"


include: "rules/tables.smk"
include: "rules/figures.smk"
include: "rules/report.smk"


rule preview:
    """The tables, figures and summary of what there is."""
    default_target: True
    input:
        "<results>/tables/evaluation_by_arm.csv",
        "<results>/figures/all.pdf",
        expand(
            "<results>/figures/{figure}.pdf",
            figure=figures_of(study.asked_tables, study.empty_tables),
        ),
        "<results>/tables/summary.md",
