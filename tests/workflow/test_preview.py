"""`reward-ablation preview` of a running study: it shows finished results and changes nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time

import pandas as pd
import pytest

from reward_ablation.study.resolve import resolve
from reward_ablation.system.files import sha256

from .conftest import TINY, Study, with_inputs_of

pytestmark = pytest.mark.slow

TABLES = "preview/tables"


def outside(study: Study) -> dict[str, tuple[int, str]]:
    """Change time and digest of each file of a study that is not in its preview, Snakemake's records included."""
    files = [path for path in study.folder.rglob("*") if path.is_file() and path.name != "config.yaml"]
    kept = [path for path in files if not re.search(r"/preview/|\.snakemake/log", str(path))]
    return {str(path): (path.stat().st_mtime_ns, sha256(path)) for path in kept}


@pytest.mark.long
def test_a_preview_shows_what_is_finished_and_changes_nothing(finished, tmp_path):
    """Of a study that lacks a run, and the answers of another one."""
    study = finished.copied(tmp_path / finished.folder.name)
    runs = resolve(TINY, "config.yaml", tmp_path).runs
    untrained, unevaluated = (
        next(name for name in runs if re.match(f"{arm}.*1$", name)) for arm in ("mixed", "length")
    )
    shutil.rmtree(study.results / "runs" / untrained)
    shutil.rmtree(next(study.results.glob(f"evaluation/*/{unevaluated}")))
    missing, before = study.planned(), outside(study)

    told = study.told("preview")
    assert "study tiny: preview of 2 of 4 runs\n" in told
    assert "- Arms without all of their seeds, with the seeds that are missing: length (1), mixed (1).\n" in told
    assert f"- Trained, and not evaluated on all evaluation sets shown: {unevaluated}.\n" in told
    words = (study.results / TABLES / "summary.md").read_text()
    assert words.startswith("# tiny\n\n**Preview of 2 of 4 runs.** ")
    assert "A preview is no look of a sequential rule" in words
    by_run, whole = (pd.read_csv(study.results / folder / "evaluation_by_run.csv") for folder in (TABLES, "tables"))
    assert by_run.equals(whole[whole["seed"] != 1].reset_index(drop=True))
    assert (study.results / "preview" / "figures" / "all.pdf").stat().st_size > 100_000
    shown = json.loads((study.results / "preview" / "study.json").read_text())
    assert shown["primary"] == study.described()["primary"]
    assert outside(study) == before
    assert study.planned() == missing
    assert (missing["train"], missing["evaluate"]) == (1, 2)


def test_nothing_finished_is_one_line(finished, study):
    with_inputs_of(finished, study)
    assert study.told("preview") == "study tiny: nothing to preview: no run is trained\n"
    assert not (study.results / "preview").exists()


@pytest.mark.long
def test_a_preview_while_the_study_runs(finished, study):
    """First comparisons come first, a preview shows them, and the study ends as one that nobody looked at."""
    with_inputs_of(finished, study)
    with study.running("snakemake", *study.arguments("--cores", "1")) as start:
        while len(list(study.results.glob("evaluation/*/*/seed0/*.parquet"))) < 2:
            assert start.poll() is None, study.log.read_text()
            time.sleep(0.2)
        told = study.told("preview")
        os.kill(start.pid, signal.SIGTERM)
        start.wait()
    assert re.search(r"preview of [23] of 4 runs", told)
    assert "length (1), mixed (1)" in told
    assert len(pd.read_csv(study.results / TABLES / "paired_differences.csv"))

    done = {path: path.stat().st_mtime_ns for path in study.results.glob("runs/*/*/run.json")}
    ended = study.make("--cores", "1")
    jobs = re.findall(r"(?:^|: )(train|evaluate) (\w+)-\S+/seed(\d)", study.log.read_text() + ended, re.MULTILINE)
    first = list(dict.fromkeys(jobs))
    assert first == [
        (what, arm, seed) for seed in "01" for arm in ("length", "mixed") for what in ("train", "evaluate")
    ]
    assert {path: path.stat().st_mtime_ns for path in done} == done
    tables = [path.relative_to(study.results) for path in (study.results / "tables").glob("*.parquet")]
    assert [path for path in tables if sha256(study.results / path) != sha256(finished.results / path)] == []
    assert study.planned() == {}
