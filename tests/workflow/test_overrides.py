"""The environment's keys in Snakemake itself: file < environment < --config, and jobs get what the start had."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from .conftest import Study
from .test_config import errors_of

#: A job of it reads the Snakefile again, in an environment that has changed since, as on another node.
SNAKEFILE = """
import json, os
from reward_ablation.planning.overrides import settle

configfile: "config.yaml"

source = settle(config, workflow, os.environ, print)

rule all:
    output:
        "config.json",
    run:
        with open(output[0], "w") as file:
            json.dump({"pid": os.getpid(), "config": config, "source": source}, file)

onstart:
    del os.environ["REWARD_ABLATION__TRAINING__MAX_STEPS"]
    os.environ["REWARD_ABLATION__TRAINING__BETA"] = "9"
    print("main", os.getpid())
"""


def test_jobs_have_the_config_of_the_start(tmp_path):
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    (tmp_path / "config.yaml").write_text("training: {max_steps: 10, beta: 0.1}\nseeds: [0]\nname: file\n")
    environment = {
        **os.environ,
        "REWARD_ABLATION__TRAINING__MAX_STEPS": "50",
        "REWARD_ABLATION__PROMPT__SYSTEM": "it's \"$HOME\" {brace} ünï 'x'\n",
        "REWARD_ABLATION__NAME": "environment",
    }
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--config", "name=given", "seeds=[1,2]"]
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    written = json.loads((tmp_path / "config.json").read_text())
    assert f"main {written['pid']}\n" not in result.stdout  # another process wrote it
    assert written["config"] == {
        "training": {"max_steps": 50, "beta": 0.1},
        "seeds": ["1", "2"],  # as Snakemake reads lists on the command line
        "name": "given",
        "prompt": {"system": "it's \"$HOME\" {brace} ünï 'x'"},
    }
    told = result.stdout.splitlines()
    assert told.count("training.max_steps: 50, by REWARD_ABLATION__TRAINING__MAX_STEPS") == 1
    assert told.count('name: "environment", by REWARD_ABLATION__NAME; --config says otherwise, and counts') == 1


def test_a_study_is_planned_by_the_environment(study: Study, monkeypatch):
    monkeypatch.setenv("REWARD_ABLATION__SEEDS", "[0, 1, 2]")
    assert study.planned()["train"] == 6


def test_an_unknown_key_names_its_variable(study: Study, monkeypatch):
    monkeypatch.setenv("REWARD_ABLATION__TRANING__MAX_STEPS", "3")
    result = study.snakemake("--dry-run")
    assert result.returncode != 0
    assert len(errors_of(result)) == 1
    assert "REWARD_ABLATION__TRANING__MAX_STEPS: config: unknown key 'traning'; did you mean training?" in result.stderr
