"""A question that is declared after runs says so, whatever was deleted in between."""

from __future__ import annotations

import pytest

from reward_ablation.study.run_folder import HIDDEN_RECORD

pytestmark = pytest.mark.slow

SUMMARY, PAGE = "results/tiny/tables/summary.md", "results/tiny/report/arms.html"


@pytest.mark.usefixtures("_blank_figures")
def test_all_output_is_deleted_and_the_runs_are_restored(finished, tmp_path):
    study = finished.copied(tmp_path / "study")
    before, models = study.described()["primary"], study.models()
    assert "\nDeclared before the first run.\n" in (study.folder / SUMMARY).read_text()
    study.make("--delete-all-output")  # what Snakemake knows; the hidden copies of the runs' records stay
    assert not (study.results / "study.json").exists()
    assert not list(study.results.glob("runs/*/seed*/run.json"))
    assert len(list(study.results.glob(f"runs/*/seed*/{HIDDEN_RECORD}"))) == 4
    assert f"declared {before['declared']}, before the first run" in " ".join(study.plan().split())
    study.make("--until", "train", "describe")
    assert study.described()["primary"] == before

    for path in (study.results / "study.json", *study.results.glob("runs/*/seed*/run.json")):
        path.unlink()
    study.set("primary", {"metric": "format"})
    assert "to be declared at the next start, after 4 runs were there" in " ".join(study.plan().split())
    study.make(SUMMARY, PAGE)
    assert study.models() == models  # nothing was trained
    when = "Declared when 4 runs had begun: what these runs may have suggested, they cannot confirm."
    assert f"\n{when}\n" in (study.folder / SUMMARY).read_text()
    assert ", after 4 runs were there\n" in (study.folder / PAGE).read_text()
