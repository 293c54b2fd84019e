"""The undocumented parts of Snakemake that the workflow uses: if one is gone, a test names it."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

import pytest
from snakemake.executors import local

from reward_ablation.start.internals import (
    compare_no_records,
    counts_params,
    force,
    given_config,
    hand_to_jobs,
    is_dry_run,
    is_main,
    jobs_to_submit,
    keep_updated,
    limit,
    needed_jobs,
    set_limit,
    submits_jobs,
    watch_failures,
)
from reward_ablation.system.errors import StudyError

from .starting import forking_python

SNAKEFILE = """
import sys

from reward_ablation.start.internals import (
    counts_params,
    force,
    is_main,
    needed_jobs,
)


def again(wildcards):
    if is_main(workflow):
        print("params count:", counts_params(workflow))
        if wildcards.number != "2":
            force(workflow, f"{wildcards.number}.txt")
    return []


rule all:
    default_target: True
    input:
        expand("{number}.txt", number=[1, 2, 3]),


rule make:
    input:
        again,
    output:
        "{number}.txt",
    run:
        with open(output[0], "w") as file:
            file.write("made")


onstart:
    print("about to run:", sorted(job.wildcards.number for job in needed_jobs(workflow) if job.rule.name == "make"))
"""


def snakemake(folder, *arguments):
    command = [forking_python(), "-m", "snakemake", "--cores", "1", *arguments]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


def test_snakemake_has_what_the_workflow_uses(tmp_path):
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    assert "about to run: ['1', '2', '3']" in snakemake(tmp_path)
    assert "params count: True" in snakemake(tmp_path, "-n")
    printed = snakemake(tmp_path, "2.txt", "3.txt", "--rerun-triggers", "mtime", "input")
    assert "params count: False" in printed
    assert "about to run: ['3']" in printed
    assert printed.count("Forced execution") == 1  # 3.txt: no target is added, and 2.txt is not forced


CHANGED = """
from reward_ablation.start.internals import compare_no_records


def nothing(wildcards):
    if config.get("own"):
        compare_no_records(workflow, ["make"])
    return []


rule all:
    input:
        "made.txt",


rule make:
    input:
        nothing,
    output:
        "made.txt",
    params:
        value=config.get("value", 1),
    shell:
        "echo {params.value} > {output}"
"""


def test_own_records_may_stand_for_snakemakes(tmp_path):
    """Params that changed make a result again, but for a rule whose results the caller decides on."""
    (tmp_path / "Snakefile").write_text(CHANGED)
    snakemake(tmp_path)
    assert "Params have changed" in snakemake(tmp_path, "-n", "--config", "value=2")
    assert "Nothing to be done" in snakemake(tmp_path, "-n", "--config", "value=2", "own=1")


ORDERED = """
def of_run(wildcards):
    return int(wildcards.run)


def of_answers(wildcards):
    return 10 + int(wildcards.get("run", wildcards.get("model", 5)))


rule all:
    input:
        "base.answers",
        expand("{run}.answers", run=[1, 3, 2]),


rule train:
    output:
        "{run}.model",
    priority: of_run
    shell:
        "echo train {wildcards.run} >> order; touch {output}"


rule evaluate:
    input:
        "{run}.model",
    output:
        "{run,[0-9]}.answers",
    priority: of_answers
    shell:
        "echo evaluate {wildcards.run} >> order; touch {output}"


rule evaluate_base:
    output:
        "base.answers",
    priority: of_answers
    shell:
        "echo evaluate base >> order; touch {output}"
"""


@pytest.mark.parametrize("scheduler", ["greedy", "ilp"])
def test_ready_jobs_start_by_priority_functions_of_their_wildcards(tmp_path, scheduler):
    (tmp_path / "Snakefile").write_text(ORDERED)
    snakemake(tmp_path, "--scheduler", scheduler)
    of_runs = [f"{what} {run}" for run in "321" for what in ("train", "evaluate")]
    assert (tmp_path / "order").read_text().splitlines() == ["evaluate base", *of_runs]


OF_JOBS = """
from reward_ablation.start.internals import (
    followers,
    keep_updated,
    needed_jobs,
    shell_command,
    waits_only_for,
)


shell.prefix("set -u; {{ ")


rule all:
    input:
        "1.answers",


rule train:
    output:
        "{run}.model",
    shell:
        "touch {output:q}"


rule other:
    output:
        "other",
    shell:
        "touch {output:q}"


rule evaluate:
    input:
        "{run}.model",
        "other",
    output:
        update("{run}.answers"),
    params:
        text="{{$(touch PWNED)}} it's",
    shell:
        "printf %s {params.text:q} > {output:q}; exit 1"


onstart:
    shell.prefix("")
    jobs = {job.rule.name: job for job in needed_jobs(workflow)}
    print("after train:", [job.rule.name for job in followers(workflow, jobs["train"])])
    print("after evaluate:", [job.rule.name for job in followers(workflow, jobs["evaluate"])])
    print("free:", waits_only_for(workflow, jobs["evaluate"], jobs["train"]))
    print("free:", waits_only_for(workflow, jobs["other"], jobs["train"]))
    shell.prefix("set -u; {{ ")
    print("command:", shell_command(jobs["evaluate"]))
    shell.prefix("")
    keep_updated(workflow)
"""


def test_what_a_submission_takes_of_jobs_and_updated_outputs_of_failed_ones_stay(tmp_path):
    (tmp_path / "Snakefile").write_text(OF_JOBS)
    (tmp_path / "1.answers").write_text("earlier")
    command = [forking_python(), "-m", "snakemake", "--cores", "1", "--forceall"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 1
    lines = result.stdout.splitlines()
    assert "after train: ['evaluate']" in lines
    assert "after evaluate: ['all']" in lines
    assert [line for line in lines if line.startswith("free:")] == ["free: False", "free: True"]
    [command] = [line.removeprefix("command: set -u; { ") for line in lines if line.startswith("command:")]
    assert subprocess.run(["bash", "-c", command], cwd=tmp_path).returncode == 1
    assert (tmp_path / "1.answers").read_text() == "{{$(touch PWNED)}} it's", "the failed job's own, not removed"
    assert not (tmp_path / "PWNED").exists()


LIMITED = """
from reward_ablation.start.internals import changes_files, limit, set_limit


rule all:
    input:
        expand("{number}.txt", number=range(4)),


# Each goes on only once another one runs, some for longer than others, and fails where two others do.
rule make:
    output:
        "{number}.txt",
    resources:
        slot=1,
    shell:
        "mkdir run-{wildcards.number};"
        " for i in $(seq 600); do [ -e two ] && break; [ $(ls -d run-* | wc -l) = 2 ] && touch two; sleep 0.1; done;"
        " for i in $(seq 5 1{wildcards.number}); do [ $(ls -d run-* | wc -l) -le 2 ] || exit 1; sleep 0.1; done;"
        " rmdir run-{wildcards.number}; touch {output}"


onstart:
    print("here:", changes_files(workflow), "limit:", limit(workflow, "slot"))
    if limit(workflow, "slot") is None:
        set_limit(workflow, "slot", 2)
    print("limit now:", limit(workflow, "slot"))
"""


def test_a_limit_that_is_set_at_the_start_is_kept(tmp_path):
    (tmp_path / "Snakefile").write_text(LIMITED)
    printed = snakemake(tmp_path, "--cores", "4")
    assert "here: True limit: None" in printed
    assert "limit now: 2" in printed
    assert (tmp_path / "two").exists()
    assert "here: False limit: 3" in snakemake(tmp_path, "--touch", "--forceall", "--resources", "slot=3")


SUBMITTED = """
localrules:
    local,
    table,


rule table:
    input:
        "answers",
    output:
        "table",
    shell:
        "touch table"


rule local:
    output:
        "local",
    shell:
        "touch local"


rule evaluate:
    output:
        "answers",
    threads: 3
    shell:
        "touch answers"
"""

SITE = "train: {hours: 1, mem_gb: 1}\nevaluate: {hours: HOURS, mem_gb: 1}\n"


@pytest.mark.parametrize(
    ("hours", "target", "told"),
    [
        ("1", "table", "site.yaml: not checked whether Slurm takes these jobs: sinfo: "),  # Slurm does not answer
        ("none", "table", "error: site.yaml: evaluate.hours: 'none' is not allowed"),
        ("none", "local", None),  # no job to submit
    ],
)
def test_a_dry_run_calls_the_executors_check(tmp_path, monkeypatch, hours, target, told):
    """A dry run calls no `onstart` and makes no executor of ours."""
    (tmp_path / "slurm.conf").touch()
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))  # there may be a Slurm here
    (tmp_path / "Snakefile").write_text(SUBMITTED)
    (tmp_path / "site.yaml").write_text(SITE.replace("HOURS", hours))
    command = [forking_python(), "-m", "snakemake", "-n", "--executor", "slurm-study", "--jobs", "1", target]
    result = subprocess.run([*command, "--slurm-study-site", "site.yaml"], cwd=tmp_path, capture_output=True, text=True)
    printed = result.stdout + result.stderr
    assert result.returncode == (1 if told and told.startswith("error") else 0), printed
    assert (told or "This was a dry-run") in printed
    assert "Traceback" not in printed


FAILING = """
from reward_ablation.start.internals import last_attempt, watch_failures
from reward_ablation.system.exit_status import is_permanent


def failed(job, status):
    print("failed:", job.wildcards.end, status)
    if is_permanent(status):
        last_attempt(job)


watch_failures(failed)


rule all:
    input:
        expand("{end}.txt", end=["1", "75", "killed", "python"]),


rule command:
    output:
        "{end}.txt",
    wildcard_constraints:
        end="[0-9]+",
    retries: 2
    shell:
        "echo once >> starts-{wildcards.end}; exit {wildcards.end}"


rule killed:
    output:
        "{end,killed}.txt",
    retries: 2
    shell:
        "echo once >> starts-killed; kill -9 $$"


rule python:
    output:
        "{end,python}.txt",
    retries: 2
    run:
        with open("starts-python", "a") as file:
            file.write("once\\n")
        raise ValueError("again and again")
"""


def test_only_failures_that_may_pass_are_tried_again(tmp_path):
    (tmp_path / "Snakefile").write_text(FAILING)
    command = [forking_python(), "-m", "snakemake", "--cores", "1", "--keep-going", "--force-use-threads"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    starts = {file.name[7:]: len(file.read_text().split()) for file in tmp_path.glob("starts-*")}
    assert starts == {"1": 1, "75": 3, "killed": 3, "python": 1}, result.stderr
    assert "failed: killed -9" in result.stdout


def test_a_snakemake_that_reports_failures_elsewhere_is_one_line(monkeypatch):
    monkeypatch.delattr(local.Executor, "_callback")
    with pytest.raises(StudyError, match=r"has no local.Executor._callback; install snakemake 9.27"):
        watch_failures(print)


@pytest.mark.parametrize(
    ("use", "part"),
    [
        (counts_params, "dag_settings.rerun_triggers"),
        (is_main, "is_main_process"),
        (needed_jobs, "dag.needrun_jobs"),
        (lambda workflow: force(workflow, "file"), "dag.forcefiles"),
        (lambda workflow: compare_no_records(workflow, ["train"]), "persistence"),
        (is_dry_run, "output_settings.dryrun"),
        (submits_jobs, "local_exec"),
        (given_config, "config_settings.config"),
        (lambda workflow: hand_to_jobs(workflow, "key=value"), "config_settings"),
        (lambda workflow: limit(workflow, "gpu"), "global_resources"),
        (lambda workflow: set_limit(workflow, "gpu", 1), "register_resource"),
        (jobs_to_submit, "_localrules"),
        (keep_updated, "persistence"),
    ],
)
def test_a_part_that_is_gone_is_one_line(use, part):
    with pytest.raises(StudyError, match=rf"this version of Snakemake has no workflow.{part}; install snakemake 9.27"):
        use(SimpleNamespace(dag=SimpleNamespace(), dag_settings=SimpleNamespace()))
