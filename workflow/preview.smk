"""The tables, figures and summary of the finished part of a study. Only `reward-ablation preview` starts this workflow.

It works in the folder `.work` of the preview, where `rules.json` says what is finished.
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
from reward_ablation.start.job_commands import shell_prefix
from reward_ablation.start.preview import RULES, PreviewStudy
from reward_ablation.study.core_digest import code_of

study = PreviewStudy.read(Path(RULES))


pathvars:
    results="..",
    logs="../logs",
    benchmarks="../logs/benchmarks",


shell.prefix(shell_prefix(Path(sys.executable).parent))
os.environ.update(CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1")


include: "rules/tables.smk"
include: "rules/figures.smk"
include: "rules/report.smk"


rule preview:
    """The tables, figures and summary of what is finished."""
    default_target: True
    input:
        "<results>/tables/evaluation_by_arm.csv",
        "<results>/figures/all.pdf",
        expand("<results>/figures/{figure}.pdf", figure=figures_of(study.asked_tables)),
        "<results>/tables/summary.md",
