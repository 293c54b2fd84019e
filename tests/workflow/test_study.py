"""The real DAG on a tiny config: everything comes out, twice the same, and a change runs what it changes."""

from __future__ import annotations

import json
import shutil

import pandas as pd
import pypdf
import pytest

from reward_ablation.study.files import sha256

from .conftest import TINY, Study

pytestmark = pytest.mark.slow


@pytest.fixture
def copied(finished, tmp_path):
    """A copy of the finished study, Snakemake's own records included, to be changed."""
    shutil.copytree(finished.folder, tmp_path / "copy", copy_function=shutil.copy2)
    return Study(tmp_path / "copy", TINY)


def test_every_figure_and_table_is_made(finished):
    figures = finished.results / "figures"
    names = ["rewards", "length", "evaluation", "arms", "similarity_steps", "similarity_layers", "similarity_parts"]
    for name in names:
        assert (figures / f"{name}.png").stat().st_size > 10_000
    all_pages = pypdf.PdfReader(figures / "all.pdf")
    assert len(all_pages.pages) == 1 + len(names)
    title = all_pages.pages[0].extract_text()
    assert "tiny" in title
    assert "mixed" in title
    for table in ("runs", "evaluation_by_run", "evaluation_by_arm", "rewards_by_step", "similarity_by_step"):
        assert len(pd.read_csv(finished.results / "tables" / f"{table}.csv"))


def test_each_run_is_recorded_and_evaluated(finished):
    records = [json.loads(path.read_text()) for path in sorted(finished.results.glob("runs/*/*/run.json"))]
    assert [record["seed"] for record in records] == [0, 1, 0, 1]
    assert all(record["steps"] == 3 for record in records)
    answers = [pd.read_parquet(path) for path in finished.results.glob("evaluation/**/test-*.parquet")]
    assert [len(table) for table in answers] == [12 * 3] * 5  # base and four runs: greedy and two samples


def test_a_second_start_has_nothing_to_do(finished):
    assert finished.planned() == {}


def test_the_report_shows_every_figure_with_its_caption(finished, tmp_path):
    report = tmp_path / "report.html"
    result = finished.snakemake("--report", str(report))
    assert result.returncode == 0, result.stdout + result.stderr
    text = report.read_text()
    for figure in ("rewards.png", "evaluation.png", "similarity_steps.png", "all.pdf"):
        assert figure in text
    assert "flatters the first" in text  # from a caption


def test_two_studies_with_the_same_seeds_have_the_same_bytes(finished, tmp_path):
    again = Study(tmp_path / "again", TINY)
    result = again.snakemake()
    assert result.returncode == 0, result.stdout + result.stderr
    files = sorted(path.relative_to(finished.results) for path in finished.results.rglob("*.parquet"))
    assert len(files) > 20
    different = [str(file) for file in files if sha256(finished.results / file) != sha256(again.results / file)]
    assert different == []


@pytest.mark.parametrize(
    ("change", "trains", "evaluates"),
    [
        ({"arms.arms.mixed.weights.format": 0.6}, 2, 2),  # that arm, both seeds
        ({"arms.arms.mixed.weights": {"correctness": 0.5, "format": 1, "length": 0.5}}, 2, 2),  # two weights swapped
        ({"seeds": [0, 1, 2]}, 2, 2),  # the new seed of both arms
        ({"arms.arms.more": {"weights": {"format": 1}}}, 2, 2),
        ({"seeds": [0]}, 0, 0),
        ({"training.learning_rate": 2.0e-3}, 4, 4),
        ({"evaluation.max_new_tokens": 12}, 0, 4),
        ({"bootstrap": 300}, 0, 0),
    ],
)
def test_a_change_runs_what_it_changes(copied, change, trains, evaluates):
    for path, value in change.items():
        *parents, last = path.split(".")
        section = copied.config
        for key in parents:
            section = section[key]
        section[last] = value
    planned = copied.planned()
    assert planned.get("train", 0) == trains
    assert planned.get("evaluate", 0) == evaluates
    assert planned.get("aggregate", 0) == 1  # only tables and figures follow every change


def test_without_snakemakes_records_nothing_runs_again_and_a_change_is_still_seen(copied):
    shutil.rmtree(copied.folder / ".snakemake")
    assert copied.planned() == {}
    copied.config["model"]["seed"] = 7
    planned = copied.planned()
    assert (planned["fetch"], planned["train"], planned["evaluate_base"]) == (1, 4, 1)
