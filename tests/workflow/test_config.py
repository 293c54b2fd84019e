"""What a user meets before any job: the shipped configs, one-line errors, and nothing started."""

from __future__ import annotations

import subprocess
import sys

import pytest

from .conftest import ROOT


def errors_of(result):
    return [line for line in result.stderr.splitlines() if line.startswith("error: ")]


def test_a_bad_config_is_one_line_and_nothing_starts(study):
    study.config["sedes"] = study.config.pop("seeds")
    result = study.snakemake()
    assert result.returncode != 0
    assert len(errors_of(result)) == 1
    assert "config.yaml: config: unknown key 'sedes'; did you mean seeds?" in errors_of(result)[0]
    assert "Traceback" not in result.stderr
    assert not (study.folder / "results").exists()


@pytest.mark.slow
def test_what_only_trl_can_see_is_refused_before_any_job(study):
    study.config["training"]["num_generations"] = 3
    result = study.snakemake()
    assert result.returncode != 0
    assert len(errors_of(result)) == 1
    assert "must be divisible by num_generations (3)" in errors_of(result)[0]
    assert "Traceback" not in result.stderr
    assert not (study.folder / "results").exists()


def test_a_configfile_replaces_the_default_study(study):
    """Snakemake would merge the two: the default's five seeds and five arms into the user's."""
    planned = study.planned()
    assert planned["train"] == 4
    assert planned["evaluate"] == 4
    assert planned["evaluate_base"] == 1


@pytest.mark.parametrize("profile", [[], ["--profile", "profiles/slurm"]])
def test_the_default_study_is_four_arms_and_a_control_times_five_seeds(profile):
    command = [sys.executable, "-m", "snakemake", "--dry-run", "--forceall", *profile]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    table = [line.split() for line in result.stdout.splitlines()]
    assert ["train", "25"] in table
    assert ["evaluate", "25"] in table
    assert ["evaluate_base", "1"] in table
