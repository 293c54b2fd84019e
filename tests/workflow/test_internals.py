"""The undocumented parts of Snakemake that the workflow uses: if one is gone, a test names it."""

from __future__ import annotations

import base64
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
    keep_updated,
    limit,
    needed_jobs,
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
        compare_no_records(workflow, ["make"], ["make"])
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
    begun = tmp_path / ".snakemake" / "incomplete" / base64.b64encode(b"made.txt").decode()
    begun.parent.mkdir(exist_ok=True)
    begun.touch()  # as if Snakemake were killed while the job ran
    assert "made.txt" in snakemake(tmp_path, "-n", "--rerun-incomplete")
    assert "Nothing to be done" in snakemake(tmp_path, "-n", "--rerun-incomplete", "--config", "own=1")


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


UPDATED = """
from reward_ablation.start.internals import keep_updated


rule evaluate:
    output:
        update("answers"),
    shell:
        "printf new > {output}; exit 1"


onstart:
    keep_updated(workflow)
"""


def test_updated_outputs_of_failed_jobs_stay(tmp_path):
    (tmp_path / "Snakefile").write_text(UPDATED)
    (tmp_path / "answers").write_text("earlier")
    command = [forking_python(), "-m", "snakemake", "--cores", "1", "--forceall"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True).returncode == 1
    assert (tmp_path / "answers").read_text() == "new", "the failed job's own, not removed"


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
        (given_config, "config_settings.config"),
        (lambda workflow: hand_to_jobs(workflow, "key=value"), "config_settings"),
        (lambda workflow: limit(workflow, "gpu", 1), "global_resources"),
        (keep_updated, "persistence"),
    ],
)
def test_a_part_that_is_gone_is_one_line(use, part):
    with pytest.raises(StudyError, match=rf"this version of Snakemake has no workflow.{part}; install snakemake 9.27"):
        use(SimpleNamespace(dag=SimpleNamespace(), dag_settings=SimpleNamespace()))
