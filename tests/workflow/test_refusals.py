"""Causes outside the config that stop a study before its first job: another Snakemake, and folders that refuse."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest

from reward_ablation.system.files import sha256
from storage import fill, remount, small_disk

from .conftest import ROOT, Study
from .starting import forking_python
from .test_config import errors_of

pytestmark = pytest.mark.slow

#: One quick job.
FIRST = ["--until", "describe"]


def files_of(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}


def started(study, *arguments):
    """Snakemake in the background, at its first job."""
    study.snakemake("--dry-run")  # writes the config
    command = [forking_python(), "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"), "--cores", "1"]
    command += ["--directory", str(study.folder), "--configfile", "config.yaml", *arguments]
    output = (study.folder / "first.log").open("w")
    process = subprocess.Popen(command, cwd=study.folder, stdout=output, stderr=output, start_new_session=True)
    while not list((study.results / "logs").rglob("*.log")):
        assert process.poll() is None, (study.folder / "first.log").read_text()
        time.sleep(0.1)
    return process


def test_a_second_snakemake_is_refused_and_after_sigkill_the_same_command_goes_on(study):
    study.config["model"].update(samples=20000, steps=3000)  # a first job that takes a while
    first = started(study)
    try:
        before = files_of(study.results)
        second = study.snakemake()
        assert second.returncode == 1
        assert len(errors_of(second)) == 1
        holder = json.loads((study.results / ".lock").read_text())["pid"]
        assert f"process {holder} on " in errors_of(second)[0]
        assert "works there; wait until it is done or stop it" in errors_of(second)[0]
        assert "Traceback" not in second.stderr
        assert set(before) <= set(files_of(study.results))
        assert first.poll() is None
        assert study.snakemake("--dry-run").returncode == 0  # a plan disturbs nobody
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
    again = study.snakemake(*FIRST)
    assert again.returncode == 0, again.stderr


def test_a_disk_that_is_full_or_read_only_stops_the_study_before_its_first_job(study):
    with small_disk(study.results, "8m") as disk:
        filler = fill(disk)
        result = study.snakemake()
        assert result.returncode == 1
        assert [line.split(";")[0] for line in errors_of(result)] == [
            "error: results/tiny: No space left on device",
        ]
        filler.unlink()
        remount(disk, "ro")
        result = study.snakemake()
        assert result.returncode == 1
        assert len(errors_of(result)) == 1
        assert ": Read-only file system; " in errors_of(result)[0]
        assert "Traceback" not in result.stderr
        remount(disk, "rw")
        assert study.snakemake(*FIRST).returncode == 0


@pytest.mark.long
def test_a_disk_that_gets_full_stops_the_study_and_with_space_the_same_command_goes_on(finished, tmp_path):
    """Snakemake's own records are on the full disk, too; the base model fits, the trained one does not."""
    with small_disk(tmp_path / "disk", "1300k") as disk:
        study = Study(disk / "work", finished.config)
        study.config["seeds"] = [0]
        del study.config["arms"]["arms"]["length"]
        command = ("--until", "train")
        result = study.snakemake(*command)
        assert result.returncode == 1, result.stderr
        told = re.search(r"^error: (.+): No space left on device; what is done is kept", result.stderr, re.MULTILINE)
        assert told[1].startswith("results/tiny/runs/mixed-")
        # What Snakemake itself cannot write of its records to the full disk it tells in words of its own.
        [log] = study.results.glob("logs/train/mixed-*/seed0.log")
        assert "Traceback" not in log.read_text()
        assert not list(study.results.rglob("run.json"))
        remount(disk, "size=64m")
        result = study.snakemake(*command)
        assert result.returncode == 0, result.stderr
        files = [path.relative_to(study.results) for path in study.results.glob("runs/**/*") if path.is_file()]
        outputs = [path for path in files if path.suffix in (".parquet", ".safetensors")]
        assert len(outputs) == 7
        assert [path for path in outputs if sha256(study.results / path) != sha256(finished.results / path)] == []


def test_mixed_provenance_is_refused_before_any_job_where_the_config_asks_for_it(finished, tmp_path):
    shutil.copytree(finished.folder, tmp_path / "copy", copy_function=shutil.copy2)
    study = Study(tmp_path / "copy", finished.config)
    study.config["mixed_provenance"] = "refuse"
    assert study.snakemake("--", "results/tiny/tables/runs.csv").returncode == 0  # makes them again: all runs are alike
    path = next(study.results.glob("runs/mixed-*/seed1/run.json"))
    record = json.loads(path.read_text())
    record["attempts"][0]["packages"]["torch"] = "1.0"
    path.write_text(json.dumps(record))
    tables = files_of(study.results / "tables")
    result = study.snakemake()
    assert result.returncode == 1
    assert len(errors_of(result)) == 1
    assert re.match(r"error: results/tiny: torch is \S+ in runs/length-\w+/seed0 and 1\.0 in ", errors_of(result)[0])
    assert "Traceback" not in result.stderr
    assert files_of(study.results / "tables") == tables


@pytest.mark.parametrize("profile", [[], ["--profile", "profiles/slurm"]])
def test_no_profile_keeps_a_lock_that_outlives_sigkill(profile, monkeypatch):
    from snakemake.cli import parse_args

    monkeypatch.chdir(ROOT)
    assert parse_args(profile)[1].nolock
