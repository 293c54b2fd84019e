"""What a user meets before any job: the shipped configs, one-line errors, and nothing started."""

from __future__ import annotations

import os

import pytest

from .conftest import ROOT, jobs_of, printed, refusal
from .starting import run


def test_a_bad_config_is_one_line_and_nothing_starts(study):
    study.config["sedes"] = study.config.pop("seeds")
    assert "config.yaml: config: unknown key 'sedes'; did you mean seeds?" in refusal(study.snakemake())
    assert not study.results.exists()


@pytest.mark.parametrize("arguments", [[], ["--profile", "mine"]])
def test_a_key_twice_in_the_default_config_or_in_that_of_a_profile_is_one_line(tmp_path, arguments):
    file = tmp_path / ("mine.yaml" if arguments else "config/config.yaml")
    for path in (file, tmp_path / "mine/config.yaml"):
        path.parent.mkdir(exist_ok=True)
    file.write_text("name: a\nseeds: [0]\nseeds: [1]\n")
    (tmp_path / "mine/config.yaml").write_text(f"configfile: {file}\n")
    words = ["snakemake", "--snakefile", str(ROOT / "Snakefile"), "--dry-run", *arguments]
    line = refusal(run(words, tmp_path, ROOT / "workflow", os.environ))
    assert "line 3: key 'seeds' occurs twice, first in line 2; rename one of the two, or take it out" in line
    assert file.name in line


def test_a_configfile_replaces_the_default_study(study):
    """Snakemake would merge the two: the default's five seeds and five arms into the user's."""
    assert study.planned().items() >= {"train": 4, "evaluate": 4, "evaluate_base": 1}.items()


@pytest.mark.parametrize("profile", [[], ["--profile", "profiles/slurm"]])
def test_the_default_study_is_four_arms_and_a_control_times_five_seeds(profile):
    words = ["snakemake", "--dry-run", "--forceall", *profile]
    jobs = jobs_of(printed(run(words, ROOT, ROOT / "workflow", os.environ)))
    assert jobs.items() >= {"train": 25, "evaluate": 25, "evaluate_base": 1}.items()
