"""`reward-ablation preview` of a running study: it shows finished results and changes nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest

from reward_ablation.study.resolve import resolve
from reward_ablation.system.files import sha256

from .conftest import ROOT, TINY, Study, with_inputs_of

pytestmark = pytest.mark.slow

SUMMARY = "preview/tables/summary.md"


def outside(study: Study) -> dict[str, tuple[int, str]]:
    """Change time and digest of each file of a study that is not in its preview, Snakemake's records included."""
    files = [path for path in study.folder.rglob("*") if path.is_file() and path.name != "config.yaml"]
    kept = [
        path for path in files if study.results / "preview" not in path.parents and ".snakemake/log" not in str(path)
    ]
    return {str(path): (path.stat().st_mtime_ns, sha256(path)) for path in kept}


def tables_of(study: Study) -> dict[str, str]:
    """Digest of each table, but for times."""
    return {path.name: sha256(path) for path in (study.results / "tables").glob("*.parquet")}


@pytest.fixture
def unfinished(finished, tmp_path):
    """A copy of the finished study, less one run, and less the answers of another; Snakemake's records included."""
    study = Study(tmp_path / finished.folder.name, TINY)
    shutil.copytree(finished.folder, study.folder, copy_function=shutil.copy2)
    runs = resolve(TINY, "config.yaml", tmp_path).runs
    untrained, unevaluated = (
        next(name for name in runs if re.match(f"{arm}.*1$", name)) for arm in ("mixed", "length")
    )
    shutil.rmtree(study.results / "runs" / untrained)
    shutil.rmtree(next(study.results.glob(f"evaluation/*/{unevaluated}")))
    return study, unevaluated


@pytest.mark.long
def test_a_preview_shows_what_is_finished_and_changes_nothing(finished, unfinished):
    study, unevaluated = unfinished
    missing, before = study.planned(), outside(study)

    told = study.command("preview")
    assert told.returncode == 0, told.stdout + told.stderr
    assert "study tiny: preview of 2 of 4 runs\n" in told.stdout
    assert "- Arms without all of their seeds, with the seeds that are missing: length (1), mixed (1).\n" in told.stdout
    assert f"- Trained, and not evaluated on all evaluation sets shown: {unevaluated}.\n" in told.stdout
    words = (study.results / SUMMARY).read_text()
    assert words.startswith("# tiny\n\n**Preview of 2 of 4 runs.** ")
    assert "A preview is no look of a sequential rule" in words
    assert f"\n- Trained, and not evaluated on all evaluation sets shown: {unevaluated}.\n" in words
    by_run = pd.read_csv(study.results / "preview" / "tables" / "evaluation_by_run.csv")
    whole = pd.read_csv(study.results / "tables" / "evaluation_by_run.csv")
    assert by_run.equals(whole[whole["seed"] != 1].reset_index(drop=True))
    assert (study.results / "preview" / "figures" / "all.pdf").stat().st_size > 100_000

    declared = json.loads((study.results / "study.json").read_text())["primary"]
    assert json.loads((study.results / "preview" / "study.json").read_text())["primary"] == declared
    assert outside(study) == before
    assert study.planned() == missing
    assert (missing["train"], missing["evaluate"]) == (1, 2)

    made = {path: path.stat().st_mtime_ns for path in (study.results / "preview" / "figures").iterdir()}
    assert study.command("preview").returncode == 0
    assert {path: path.stat().st_mtime_ns for path in made} == made


def test_nothing_finished_is_one_line(finished, study):
    with_inputs_of(finished, study)
    told = study.command("preview")
    assert told.returncode == 0, told.stdout + told.stderr
    assert told.stdout == "study tiny: nothing to preview: no run is trained\n"
    assert not (study.results / "preview").exists()


@pytest.mark.long
def test_a_preview_while_the_study_runs(finished, study):
    """First comparisons come first, a preview shows them, and the study ends as one that nobody looked at."""
    with_inputs_of(finished, study)
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"), "--cores", "1"]
    study.planned()  # writes the config
    command += ["--directory", str(study.folder), "--configfile", "config.yaml"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow")}
    log = study.folder / "log"
    with log.open("w") as file:
        start = subprocess.Popen(command, cwd=study.folder, env=environment, stdout=file, stderr=file)
    try:
        deadline = time.monotonic() + 600
        while len(list(study.results.glob("evaluation/*/*/seed0/*.parquet"))) < 2 and time.monotonic() < deadline:
            assert start.poll() is None, log.read_text()
            time.sleep(0.2)
        told = study.command("preview")
    finally:
        start.send_signal(signal.SIGTERM)
        start.wait()
    assert told.returncode == 0, told.stdout + told.stderr
    assert re.search(r"preview of [23] of 4 runs", told.stdout)
    assert "length (1), mixed (1)" in told.stdout
    differences = pd.read_csv(study.results / "preview" / "tables" / "paired_differences.csv")
    assert len(differences)

    done = {path: path.stat().st_mtime_ns for path in study.results.glob("runs/*/*/run.json")}
    ended = study.snakemake("--cores", "1")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    jobs = re.findall(r"(?:^|: )(train|evaluate) (\w+)-\S+/seed(\d)", log.read_text() + ended.stderr, re.MULTILINE)
    first = list(dict.fromkeys(jobs))
    assert first == [
        (what, arm, seed) for seed in "01" for arm in ("length", "mixed") for what in ("train", "evaluate")
    ]
    assert {path: path.stat().st_mtime_ns for path in done} == done
    assert tables_of(study) == tables_of(finished)
    assert study.planned() == {}
