"""Reward ablation: train under many reward weights and seeds, evaluate, and draw what each component does."""

import gc
import os
import sys
from functools import partial
from pathlib import Path

from snakemake.utils import min_version

from reward_ablation.analysis.registry import files_of
from reward_ablation.figures.catalogue import (
    figures_of,
    module_of,
    pages_of,
    tables_of,
)
from reward_ablation.config.base import NAME_PATTERN
from reward_ablation.start.config_files import contents_of, refuse_command
from reward_ablation.start.full_check import remember_settings
from reward_ablation.start.data_files import check_data_files
from reward_ablation.start.decide import with_diverged
from reward_ablation.start.full_check import full_check, refuse
from reward_ablation.start.overrides import FILE, config_of_start
from reward_ablation.start.job_commands import (
    FailedJobs,
    end_at_second_interrupt,
    shell_prefix,
    shorten_failed_commands,
)
from reward_ablation.system.errors import one_line_errors
from reward_ablation.start.internals import (
    given_config,
    hand_to_jobs,
    is_dry_run,
    is_main,
    per_job,
    watch_failures,
)
from reward_ablation.start.declarations import record_question
from reward_ablation.report.pages import ReportPages
from reward_ablation.report.policy import guard_report
from reward_ablation.start.reruns import Reruns, share_gpus
from reward_ablation.start.rule_params import RuleParams, verbatim
from reward_ablation.study.core_digest import code_of
from reward_ablation.study.resolve import resolve
from reward_ablation.spec.canonical import KEY_DIGITS
from reward_ablation.start.results_folder import ResultsFolder, check_working_folder

min_version("9.27")
logger.addFilter(shorten_failed_commands)
if is_main(workflow):
    logger.addFilter(FailedJobs())
# Planning makes millions of objects that stay in memory. With Python's own threshold of 700 new objects, the garbage
# collector would visit all of them again and again.
gc.set_threshold(50_000)

# A --configfile replaces the default study; Snakemake would merge the two.
if not workflow.configfiles:
    with one_line_errors():
        contents_of("config/config.yaml")

    configfile: "config/config.yaml"


# A dry run leaves nothing in the user's folders, not even compiled modules beside a file of rewards.
if is_dry_run(workflow):
    sys.dont_write_bytecode = True
    os.environ.update(PYTHONDONTWRITEBYTECODE="1")
with one_line_errors():
    settled = config_of_start(
        config, workflow.configfiles, given_config(workflow), os.environ, logger.info
    )
    study = with_diverged(resolve(config, settled.source, Path.cwd()))
    check_working_folder(Path.cwd())
    # A dry run ends before the full check.
    if is_main(workflow) and is_dry_run(workflow):
        check_data_files(study)
results_folder = ResultsFolder(Path(study.config.root))
for warning in [*study.warnings, *results_folder.other_config(workflow.configfiles)]:
    logger.warning(f"warning: {warning}")
# Runs of older code or inputs are trained again, even if Snakemake's own records of them are gone.
reruns = Reruns(workflow, study)
with one_line_errors():
    watch_failures(reruns.failed)
# Whether code counts is not known before all rules are read.
rule_params = RuleParams(study, lambda: reruns.code_counts)
pages = ReportPages(config, study)
guard_report()


# If jobs run on this machine, they share its GPUs. Otherwise the cluster has the GPUs.
resource_scopes:
    gpu="local",


if study.config.launch.gpus:
    share_gpus(workflow)


pathvars:
    results=study.config.root,
    logs=f"{study.config.root}/logs",
    benchmarks=f"{study.config.root}/benchmarks",


wildcard_constraints:
    run=f"{NAME_PATTERN}-[0-9a-f]{{{KEY_DIGITS}}}/seed[0-9]+",
    dataset=f"{NAME_PATTERN}-[0-9a-f]{{{KEY_DIGITS}}}",
    model=f"base|{NAME_PATTERN}-[0-9a-f]{{{KEY_DIGITS}}}/seed[0-9]+",
    kind=r"(\.steps)?",
    reward_model=f"[0-9a-f]{{{KEY_DIGITS}}}",


# Jobs run in the Python environment of this Snakemake, activated or not.
shell.prefix(shell_prefix(Path(sys.executable).parent))
# A study for the CPU uses no GPU, even on a machine that has one.
if study.config.launch.gpus == 0:
    os.environ.update(CUDA_VISIBLE_DEVICES="")
# One thread per process unless a rule sets more. Idle OpenMP threads sleep, because machines are shared.
os.environ.setdefault("OMP_NUM_THREADS", str(study.config.launch.threads))
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# The CPU does operations that Apple's GPU does not have.
os.environ.setdefault("PYTORCH_ENABLE_MPS_FALLBACK", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")


report: "workflow/report/workflow.rst"


# Jobs that run where Snakemake was started: they need the hub, which compute nodes often cannot reach, or take seconds.
localrules:
    all,
    all_figures,
    describe,
    fetch,
    fetch_reward_model,
    prepare_evaluation,
    prepare_train,
    report_pages,
    summary,


include: "workflow/rules/fetch.smk"
include: "workflow/rules/prepare.smk"


if study.config.sft:

    include: "workflow/rules/sft.smk"


include: "workflow/rules/train.smk"
include: "workflow/rules/evaluate.smk"


if study.scores_folder:

    include: "workflow/rules/score.smk"


include: "workflow/rules/describe.smk"
include: "workflow/rules/tables.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/report_pages.smk"
include: "workflow/rules/report.smk"


# These were targets before they became commands of their own.
for command in ("plan", "status", "preview", "power", "budget", "verify", "prune"):

    rule:
        name:
            command
        input:
            partial(refuse_command, command, workflow.configfiles),
        localrule: True


rule all:
    """Every run, every evaluation, every table and figure."""
    default_target: True
    input:
        expand("<results>/runs/{run}/run.json", run=study.sound_runs),
        expand(
            f"<results>/{study.answers_folder}/{{run}}/{{dataset}}.parquet",
            run=["base", *study.sound_runs],
            dataset=study.datasets,
        ),
        expand(
            f"<results>/{study.answers_folder}/{{run}}/{{dataset}}.steps.parquet",
            run=study.keeping_runs,
            dataset=study.datasets,
        ),
        "<results>/tables/evaluation_by_arm.csv",
        "<results>/figures/all.pdf",
        expand("<results>/figures/{figure}.pdf", figure=figures_of(study.asked_tables)),
        "<results>/report/commands.html",
        "<results>/tables/summary.md",
        expand("<results>/{file}", file=study.scores),


onstart:
    # All that can be known before a job is checked here. TRL is asked only if something is trained.
    with one_line_errors():
        work = reruns.work
        # The reward files of the study run in its last check, and no line before runs code of them.
        refuse(full_check(study, work, logger.warning))
        results_folder.claim()
        hand_to_jobs(workflow, settled.hand_on(results_folder.folder, work.submits))
        results_folder.record_config(workflow.configfiles)
        if work.trains:
            remember_settings(study, results_folder.folder)
        record_question(study, work.trains, "describe" in reruns.jobs, logger.info)
        reruns.announce(logger.info)
    end_at_second_interrupt()
