"""The undocumented parts of Snakemake that the workflow uses: if one is gone, a test names it."""

from __future__ import annotations

import base64
import os
from types import SimpleNamespace

import pytest
from snakemake.executors import local

from reward_ablation.start.internals import (
    compare_no_records,
    counts_params,
    hand_to_jobs,
    limit,
    needed_jobs,
    watch_failures,
)
from reward_ablation.system.errors import StudyError

from .conftest import ROOT, printed
from .starting import run

SNAKEFILE = """
import sys

from reward_ablation.start.internals import counts_params, force, is_main, needed_jobs


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


@pytest.fixture
def start(tmp_path):
    """Starts a Snakefile."""

    def snakemake(snakefile, *arguments):
        (tmp_path / "Snakefile").write_text(snakefile)
        return run(["snakemake", "--cores", "1", *arguments], tmp_path, ROOT / "workflow", os.environ)

    return snakemake


def test_snakemake_has_what_the_workflow_uses(start):
    def snakemake(*arguments):
        return printed(start(SNAKEFILE, *arguments))

    assert "about to run: ['1', '2', '3']" in snakemake()
    assert "params count: True" in snakemake("-n")
    said = snakemake("2.txt", "3.txt", "--rerun-triggers", "mtime", "input")
    assert "params count: False" in said
    assert "about to run: ['3']" in said
    assert said.count("Forced execution") == 1  # 3.txt: no target is added, and 2.txt is not forced


CHANGED = """
from reward_ablation.start.internals import compare_no_records


def nothing(wildcards):
    if config.get("own"):
        compare_no_records(workflow, ["make"], ["make"])
    return []


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


def test_own_records_may_stand_for_snakemakes(start, tmp_path):
    """Params that changed make a result again, but for a rule whose results the caller decides on."""

    def snakemake(*arguments):
        return printed(start(CHANGED, *arguments))

    snakemake()
    assert "Params have changed" in snakemake("-n", "--config", "value=2")
    assert "Nothing to be done" in snakemake("-n", "--config", "value=2", "own=1")
    begun = tmp_path / ".snakemake" / "incomplete" / base64.b64encode(b"made.txt").decode()
    begun.parent.mkdir(exist_ok=True)
    begun.touch()  # as if Snakemake were killed while the job ran
    assert "made.txt" in snakemake("-n", "--rerun-incomplete")
    assert "Nothing to be done" in snakemake("-n", "--rerun-incomplete", "--config", "own=1")


def test_a_snakemake_that_reports_failures_elsewhere_is_one_line(monkeypatch):
    monkeypatch.delattr(local.Executor, "_callback")
    with pytest.raises(StudyError, match=r"has no local.Executor._callback; install snakemake 9.27"):
        watch_failures(print)


@pytest.mark.parametrize(
    ("use", "part"),
    [
        (counts_params, "dag_settings.rerun_triggers"),
        (needed_jobs, "dag.needrun_jobs"),
        (lambda workflow: compare_no_records(workflow, ["train"]), "persistence"),
        (lambda workflow: hand_to_jobs(workflow, "key=value"), "config_settings"),
        (lambda workflow: limit(workflow, "gpu", 1), "global_resources"),
    ],
)
def test_a_part_that_is_gone_is_one_line(use, part):
    with pytest.raises(StudyError, match=rf"this version of Snakemake has no workflow.{part}; install snakemake 9.27"):
        use(SimpleNamespace(dag=SimpleNamespace(), dag_settings=SimpleNamespace()))
