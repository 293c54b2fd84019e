"""A project folder may be called anything, and no text of a config, a path or a command line is run by a shell."""

from __future__ import annotations

import os

import pytest

from .conftest import FOLDER, ROOT, refusal
from .starting import run


@pytest.mark.slow
def test_rules_run_in_a_folder_of_any_name(finished):
    assert finished.folder.name == FOLDER
    assert (finished.results / "figures" / "all.pdf").is_file()
    assert not list(finished.folder.rglob("PWNED"))


def test_the_word_plan_behind_a_config_and_a_config_that_is_a_command(study):
    study.config["results"] = "results/$(touch PWNED)"
    words = "results: 'results/$(touch PWNED)' is not allowed; allowed: a folder below the project's"
    assert words in refusal(study.command("plan", "--quick"))
    behind = ["snakemake", "--snakefile", str(ROOT / "Snakefile"), "--configfile", "config.yaml", "plan"]
    assert refusal(run(behind, study.folder, ROOT / "workflow", os.environ)) == (
        "error: plan: is not a config file, but --configfile takes all words up to the next option as files; type: "
        "snakemake plan --configfile config.yaml"
    )
    assert not list(study.folder.rglob("PWNED"))
