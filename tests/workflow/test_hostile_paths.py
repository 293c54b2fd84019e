"""A project folder may be called anything, and no text of a config, a path or a command line is run by a shell."""

from __future__ import annotations

import re

import pytest

from reward_ablation.study.resolve import resolve

from .conftest import FOLDER
from .test_config import errors_of


@pytest.mark.slow
def test_rules_run_in_a_folder_of_any_name(finished):
    assert finished.folder.name == FOLDER
    assert (finished.results / "figures" / "all.pdf").is_file()
    assert not list(finished.folder.rglob("PWNED"))


def test_the_word_plan_behind_a_config_and_a_config_that_is_a_command(study):
    study.config["results"] = "results/$(touch PWNED)"
    result = study.snakemake("plan")  # `--configfile config.yaml plan`
    assert result.returncode == 1
    assert errors_of(result) == [
        "error: plan: is not a config file, but --configfile takes all words up to the next option as files; type: "
        "snakemake plan --configfile config.yaml"
    ]
    assert "Traceback" not in result.stderr
    result = study.command("plan", "--quick")
    assert result.returncode == 1
    assert len(errors_of(result)) == 1
    assert (
        "results: 'results/$(touch PWNED)' is not allowed; allowed: a folder below the project's"
        in errors_of(result)[0]
    )
    assert not list(study.folder.rglob("PWNED"))


def test_a_failed_job_shows_its_error_and_not_its_whole_spec(study):
    file = study.folder / f"{'x' * 230}.jsonl"
    file.write_text('{"question": "1 + 1?", "answer": "2"}\n')
    study.config["data"]["evaluation"]["test"] = {"source": "file", "path": file.name}
    [dataset] = resolve(study.config, "config.yaml", study.folder).datasets
    (study.results / "data" / "evaluation" / f"{dataset}.json").mkdir(parents=True)  # where the job writes a file
    result = study.snakemake("--until", "prepare_evaluation")
    assert result.returncode == 1
    assert re.search(r"^    shell:\n +exec python -m reward_ablation\.data --spec \{", result.stderr, re.MULTILINE)
    assert "The command returned non-zero exit status 1." in result.stderr
    assert file.name not in result.stderr  # it stands at the end of the spec
    log = next(study.results.glob("logs/prepare/evaluation/*.log")).relative_to(study.folder)
    last = result.stderr.splitlines()[-1]
    assert last.startswith("error: ")
    assert last.endswith(f"{dataset}.json'; log: {log}")
    assert "localrules directive specifies" not in result.stderr
