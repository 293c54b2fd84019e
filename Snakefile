"""Reward ablation: train under many reward weights and seeds, evaluate, and draw what each component does."""

import os
import sys
from pathlib import Path

from snakemake.utils import min_version

from reward_ablation.study.base import NAME_PATTERN
from reward_ablation.study.errors import one_line_errors
from reward_ablation.study.resolve import resolve
from reward_ablation.study.spec import KEY_DIGITS

min_version("9.27")

# A --configfile replaces the default study; Snakemake would merge the two.
if not workflow.configfiles:

    configfile: "config/config.yaml"


with one_line_errors():
    study = resolve(config, " + ".join(map(str, workflow.configfiles)), Path.cwd())
for warning in study.warnings:
    logger.warning(f"warning: {warning}")


# GPUs are this machine's where jobs run here (profiles/default allows one at a time), the cluster's elsewhere.
resource_scopes:
    gpu="local",


pathvars:
    results=study.config.root,
    logs=f"{study.config.root}/logs",
    benchmarks=f"{study.config.root}/benchmarks",


wildcard_constraints:
    run=f"{NAME_PATTERN}-[0-9a-f]{{{KEY_DIGITS}}}/seed[0-9]+",
    dataset=f"{NAME_PATTERN}-[0-9a-f]{{{KEY_DIGITS}}}",


# Jobs run in the Python environment of this Snakemake, activated or not.
shell.prefix(f'set -euo pipefail; export PATH="{Path(sys.executable).parent}:$PATH"; ')
# A study for the CPU stays there, with a GPU at hand too.
if study.config.launch.gpus == 0:
    os.environ.update(CUDA_VISIBLE_DEVICES="")
# One thread per process unless a rule says more; idle threads of OpenMP sleep, machines are shared.
os.environ.setdefault("OMP_NUM_THREADS", str(study.config.launch.threads))
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")


report: "workflow/report/workflow.rst"


# Fetch and prepare here: compute nodes often have no way to the hub.
localrules:
    all,
    describe,
    fetch,
    prepare_evaluation,
    prepare_train,


include: "workflow/rules/fetch.smk"
include: "workflow/rules/prepare.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/evaluate.smk"
include: "workflow/rules/aggregate.smk"
include: "workflow/rules/figures.smk"


rule all:
    """Every run, every evaluation, every table and figure."""
    default_target: True
    input:
        expand("<results>/runs/{run}/run.json", run=study.runs),
        expand(
            f"<results>/{study.answers_folder}/{{run}}/{{dataset}}.parquet",
            run=study.runs,
            dataset=study.datasets,
        ),
        "<results>/tables/evaluation_by_arm.csv",
        "<results>/figures/all.pdf",


onstart:
    # TRL itself checks the training settings before any job is submitted; a dry run need not wait for it.
    with one_line_errors():
        study.check_training_settings()
