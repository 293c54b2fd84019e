"""Causes outside the config that stop a study before its first job: another Snakemake, and folders that refuse."""

from __future__ import annotations

import json
import time

import pytest

from storage import fill, remount, small_disk

from .conftest import ROOT, refusal

pytestmark = pytest.mark.slow

#: One quick job.
FIRST = ["--until", "describe"]


def files_of(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}


def test_a_second_snakemake_is_refused_and_after_sigkill_the_same_command_goes_on(study):
    study.config["model"].update(samples=20000, steps=3000)  # a first job that takes a while
    with study.running("snakemake", *study.arguments("--cores", "1")) as first:
        while not list((study.results / "logs").rglob("*.log")):
            assert first.poll() is None, study.log.read_text()
            time.sleep(0.1)
        before = files_of(study.results)
        error = refusal(study.snakemake())
        holder = json.loads((study.results / ".lock").read_text())["pid"]
        assert f"process {holder} on " in error
        assert "works there; wait until it is done or stop it" in error
        assert set(before) <= set(files_of(study.results))
        assert first.poll() is None
        study.make("--dry-run")  # a plan disturbs nobody
    study.make(*FIRST)


def test_a_disk_that_is_full_or_read_only_stops_the_study_before_its_first_job(study):
    with small_disk(study.results, "8m") as disk:
        filler = fill(disk)
        assert refusal(study.snakemake()).startswith("error: results/tiny: No space left on device;")
        filler.unlink()
        remount(disk, "ro")
        assert ": Read-only file system; " in refusal(study.snakemake())
        remount(disk, "rw")
        study.make(*FIRST)


@pytest.mark.parametrize("profile", [[], ["--profile", "profiles/slurm"]])
def test_no_profile_keeps_a_lock_that_outlives_sigkill(profile, monkeypatch):
    from snakemake.cli import parse_args

    monkeypatch.chdir(ROOT)
    assert parse_args(profile)[1].nolock
