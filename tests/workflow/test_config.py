"""What a user meets before any job: the shipped configs, one-line errors, and nothing started."""

from __future__ import annotations

import subprocess

import pytest

from .conftest import ROOT
from .starting import forking_python


def errors_of(result):
    """The lines of errors, without those that tell them once more when the start ends."""
    return [line for line in result.stderr.splitlines() if line.startswith("error: ") and "; log: " not in line]


def test_a_bad_config_is_one_line_and_nothing_starts(study):
    study.config["sedes"] = study.config.pop("seeds")
    result = study.snakemake()
    assert result.returncode != 0
    assert len(errors_of(result)) == 1
    assert "config.yaml: config: unknown key 'sedes'; did you mean seeds?" in errors_of(result)[0]
    assert "Traceback" not in result.stderr
    assert not (study.folder / "results").exists()


@pytest.mark.parametrize("arguments", [[], ["--configfile", "mine.yaml"], ["--profile", "mine"]])
def test_a_key_twice_in_the_default_config_an_own_one_or_that_of_a_profile_is_one_line(tmp_path, arguments):
    file = tmp_path / ("mine.yaml" if arguments else "config/config.yaml")
    for path in (file, tmp_path / "mine/config.yaml"):
        path.parent.mkdir(exist_ok=True)
    file.write_text("name: a\nseeds: [0]\nseeds: [1]\n")
    (tmp_path / "mine/config.yaml").write_text(f"configfile: {file}\n")
    command = [forking_python(), "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"), "--dry-run"]
    result = subprocess.run([*command, *arguments], cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 1
    (line,) = errors_of(result)
    assert "line 3: key 'seeds' occurs twice, first in line 2; rename one of the two, or take it out" in line
    assert file.name in line
    assert "Traceback" not in result.stderr


def test_a_bad_row_of_data_is_one_line_in_a_dry_run(study):
    (study.folder / "mine.jsonl").write_text('{"question": "a", "answer": "1"}\n{"question": "b", "question": "c"}\n')
    study.config["data"]["train"] = {"source": "file", "path": "mine.jsonl"}
    result = study.snakemake("--dry-run")
    assert result.returncode == 1
    assert "data.train: mine.jsonl: line 2: key 'question' occurs twice" in errors_of(result)[0]
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
    command = [forking_python(), "-m", "snakemake", "--dry-run", "--forceall", *profile]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    table = [line.split() for line in result.stdout.splitlines()]
    assert ["train", "25"] in table
    assert ["evaluate", "25"] in table
    assert ["evaluate_base", "1"] in table
