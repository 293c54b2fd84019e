"""A question that is declared after runs says so, whatever was deleted in between."""

from __future__ import annotations

import json

import pytest

from reward_ablation.study.run_folder import HIDDEN_RECORD

from .edits import Bench

pytestmark = pytest.mark.slow

SUMMARY, PAGE = "results/tiny/tables/summary.md", "results/tiny/report/arms.html"


@pytest.mark.usefixtures("_blank_figures")
def test_all_output_is_deleted_and_the_runs_are_restored(finished, tmp_path):
    bench = Bench.of(finished, tmp_path)
    before, models = declared(bench), bench.models()
    assert "\nDeclared before the first run.\n" in (bench.folder / SUMMARY).read_text()
    bench.snakemake("--delete-all-output")  # what Snakemake knows; the hidden copies of the runs' records stay
    assert not (bench.results / "study.json").exists()
    assert not list(bench.results.glob("runs/*/seed*/run.json"))
    assert len(list(bench.results.glob(f"runs/*/seed*/{HIDDEN_RECORD}"))) == 4
    assert f"declared {before['declared']}, before the first run" in " ".join(bench.plan().split())
    bench.snakemake("--until", "train", "describe")
    assert declared(bench) == before

    for path in (bench.results / "study.json", *bench.results.glob("runs/*/seed*/run.json")):
        path.unlink()
    bench.set("primary", {"metric": "format"})
    assert "to be declared at the next start, after 4 runs were there" in " ".join(bench.plan().split())
    bench.snakemake(SUMMARY, PAGE)
    assert bench.models() == models  # nothing was trained
    assert declared(bench)["runs_then"] == 4
    when = "Declared when 4 runs had begun: what these runs may have suggested, they cannot confirm."
    assert f"\n{when}\n" in (bench.folder / SUMMARY).read_text()
    assert ", after 4 runs were there\n" in (bench.folder / PAGE).read_text()


def declared(bench: Bench) -> dict:
    return json.loads((bench.results / "study.json").read_text())["primary"]
