"""The environment's keys in Snakemake itself: file < environment < --config, and jobs get what the start had."""

from __future__ import annotations

import json
import re

import pytest

from reward_ablation.start.overrides import StartConfig
from reward_ablation.system.errors import StudyError
from stand_in_gpus import Machine

from .conftest import ROOT, Study, printed, refusal
from .starting import run

#: A job of it reads the Snakefile again, in an environment that has changed since, as on another node.
SNAKEFILE = """
import json, os
from pathlib import Path

from reward_ablation.start.internals import given_config, hand_to_jobs
from reward_ablation.start.overrides import config_of_start

configfile: "config.yaml"

settled = config_of_start(config, workflow.configfiles, given_config(workflow), os.environ, print)

rule all:
    output:
        "config.json",
    run:
        with open(output[0], "w") as file:
            json.dump({"pid": os.getpid(), "config": config}, file)

onstart:
    hand_to_jobs(workflow, settled.hand_on(Path("results"), submits=False))
    del os.environ["REWARD_ABLATION__TRAINING__MAX_STEPS"]
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    os.environ["REWARD_ABLATION__TRAINING__BETA"] = "9"
    print("main", os.getpid())
"""


def test_jobs_have_the_config_of_the_start(tmp_path):
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    (tmp_path / "config.yaml").write_text(
        "training: {max_steps: 10, beta: 0.1}\nseeds: [0]\nname: file\nlaunch: {gpus: auto}\n"
    )
    environment = {
        **Machine(tmp_path / "machine", 2).environment(),
        "REWARD_ABLATION__TRAINING__MAX_STEPS": "50",
        "REWARD_ABLATION__PROMPT__SYSTEM": "it's \"$HOME\" {brace} ünï 'x'\n",
        "REWARD_ABLATION__NAME": "environment",
    }
    given = "it's $(touch PWNED) `touch PWNED`"  # Snakemake's own quotes have a shell run it
    words = ["snakemake", "--cores", "1", "--config", "name=given", "seeds=[1,2]", f"baseline={given}"]
    result = run(words, tmp_path, ROOT / "workflow", environment)
    told = printed(result).splitlines()
    written = json.loads((tmp_path / "config.json").read_text())
    assert f"main {written['pid']}" not in told  # another process wrote it
    assert written["config"] == {
        "training": {"max_steps": 50, "beta": 0.1},
        "seeds": ["1", "2"],  # as Snakemake reads lists on the command line
        "name": "given",
        "launch": {"gpus": 1},
        "prompt": {"system": "it's \"$HOME\" {brace} ünï 'x'"},
        "baseline": given,
    }
    assert not (tmp_path / "PWNED").exists()
    assert told.count("launch.gpus: auto is 1 here: an NVIDIA GPU") == 1
    assert told.count("training.max_steps: 50, by REWARD_ABLATION__TRAINING__MAX_STEPS") == 1
    assert told.count('name: "environment", by REWARD_ABLATION__NAME; --config has another value, which wins') == 1


def test_a_study_is_planned_by_the_environment_and_a_secret_is_not_told(study: Study, monkeypatch):
    monkeypatch.setenv("REWARD_ABLATION__SEEDS", "[0, 1, 2]")
    assert study.planned()["train"] == 6
    assert study.planned("--config", "seeds=[0]")["train"] == 2  # Snakemake reads a list of texts
    monkeypatch.setenv("REWARD_ABLATION__COMPONENTS__LENGTH__PARAMETERS__API_KEY", "sk-12345")
    result = study.snakemake("--dry-run")
    told = result.stdout + result.stderr
    assert "components.length.parameters.api_key" in told
    assert "sk-12345" not in told


def test_an_unknown_key_names_its_variable(study: Study, monkeypatch):
    monkeypatch.setenv("REWARD_ABLATION__TRANING__MAX_STEPS", "3")
    words = "REWARD_ABLATION__TRANING__MAX_STEPS: config: unknown key 'traning'; did you mean training?"
    assert words in refusal(study.snakemake("--dry-run"))


def test_auto_is_the_cpu_where_there_is_no_gpu_and_refused_where_jobs_are_submitted(
    study: Study, monkeypatch, tmp_path
):
    def runs(printed):
        return set(re.findall(r"runs/(\S+)/run.json", printed))

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    on_cpu = runs(study.make("--dry-run"))
    study.config["launch"] = {"gpus": "auto"}
    planned = study.make("--dry-run")
    assert "launch.gpus: auto is 0 here: the CPU" in planned
    assert runs(planned) == on_cpu != set()  # with the keys of the number
    with pytest.raises(StudyError, match=r"launch.gpus: auto means this machine's GPUs, .* write how many"):
        StartConfig({}, "config.yaml", auto=True).hand_on(tmp_path, submits=True)
    StartConfig({}, "config.yaml", auto=False).hand_on(tmp_path, submits=True)
