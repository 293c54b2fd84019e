"""Claiming a results folder: one Snakemake at a time, and only if it can write there."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from reward_ablation.start.results_folder import ResultsFolder, check_working_folder
from reward_ablation.system.errors import StudyError
from storage import fill, remount, small_disk, without_privileges

CLAIM = """
import sys
from pathlib import Path
from reward_ablation.system.errors import one_line_errors
from reward_ablation.start.results_folder import ResultsFolder
with one_line_errors():
    ResultsFolder(Path(sys.argv[1])).claim()
"""


def claiming(folder) -> list[str]:
    return [sys.executable, "-c", CLAIM, str(folder)]


def refused(folder, match) -> None:
    """A folder that cannot be claimed, which is told in one line."""
    result = subprocess.run(without_privileges(claiming(folder)), capture_output=True, text=True)
    assert (result.returncode, result.stderr.count("\n")) == (1, 1)
    assert re.search(match, result.stderr), result.stderr


def test_a_folder_is_made_claimed_and_left_without_litter(tmp_path):
    folder = tmp_path / "results" / "demo"
    lock = ResultsFolder(folder).claim()
    assert json.loads((folder / ".lock").read_text())["pid"]
    refused(folder, f"^error: {folder}: process .*works there; wait until it is done or stop it, then run the same ")
    lock.release()
    assert [path.name for path in folder.iterdir()] == [".lock"]


def test_a_plan_made_before_another_one_ended_is_refused(tmp_path):
    """The plan does not know the files of the study that ended: they would be deleted and made again."""
    early = ResultsFolder(tmp_path)
    subprocess.run(claiming(tmp_path), check=True)
    with pytest.raises(StudyError, match="another Snakemake worked there while this one planned its jobs"):
        early.claim()
    ResultsFolder(tmp_path).claim().release()


def test_a_full_disk_is_told_before_any_job_and_with_space_it_goes_on(tmp_path):
    with small_disk(tmp_path / "disk", "4m") as disk:
        filler = fill(disk, leave=8192)
        refused(disk / "results", f"^error: {disk / 'results'}: No space left on device; what is done is kept")
        assert [path.name for path in (disk / "results").iterdir()] == [".lock"]
        ResultsFolder(disk / "results").claim(space=0).release()  # `prune` makes room
        filler.unlink()
        ResultsFolder(disk / "results").claim().release()


def test_a_folder_that_cannot_be_written_is_told_before_any_job(tmp_path):
    (tmp_path / "home").mkdir(mode=0o500)
    refused(tmp_path / "home" / "results", f"^error: {tmp_path / 'home' / 'results'}: Permission denied; ")
    with small_disk(tmp_path / "disk", "4m") as disk:
        (disk / "begun").mkdir()
        ResultsFolder(disk / "begun").claim().release()
        check_working_folder(disk / "begun")
        remount(disk, "ro")
        check_working_folder(disk / "begun")  # its records are there: a dry run needs no more
        with pytest.raises(StudyError, match=r"\.snakemake: Read-only file system; Snakemake keeps its records in"):
            check_working_folder(disk)
        for name in ("begun", "results"):
            refused(disk / name, f"^error: {disk / name}.*: Read-only file system; .*another folder with the key res")


def test_two_configs_that_share_a_folder_are_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("first.yaml", "second.yaml", "changes.yaml"):
        (tmp_path / name).touch()
    folder = ResultsFolder(tmp_path / "results")
    assert folder.other_config(["first.yaml"]) == []  # nothing was started here
    folder.claim().release()
    folder.record_config(["first.yaml"])
    assert folder.other_config([tmp_path / "first.yaml", "changes.yaml"]) == []
    [warning] = folder.other_config(["second.yaml"])
    assert "results: the last start there was that of first.yaml; two studies in one folder" in warning
    (tmp_path / "first.yaml").unlink()  # renamed
    assert folder.other_config(["second.yaml"]) == []
