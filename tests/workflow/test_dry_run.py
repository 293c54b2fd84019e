"""A dry run changes nothing on disk, whatever its target; nor does a command that only looks."""

from __future__ import annotations

import copy
import hashlib
import os
import shutil
from pathlib import Path

import pytest

from .conftest import FOLDER, TINY, Study, printed, refusal

pytestmark = pytest.mark.slow

#: In `.snakemake`, Snakemake itself makes these folders, which stay empty, and the cache of file times, in a dry run.
OF_SNAKEMAKE = {
    *("auxiliary", "conda", "conda-archive", "incomplete", "iocache", "locks", "metadata", "shadow", "singularity"),
    "iocache/latest.pkl",
}

REWARDS = (
    "def brevity(completions, completion_ids, **columns):\n    return [1.0 / len(ids) for ids in completion_ids]\n"
)


def tree(folder: Path) -> dict[str, tuple]:
    """Mode, time and content of everything in a folder, but for what Snakemake itself keeps in `.snakemake`."""
    found: dict[str, tuple] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name in (".snakemake", "config.yaml") or name.removeprefix(".snakemake/") in OF_SNAKEMAKE:
            continue
        state = path.lstat()
        content = os.readlink(path) if path.is_symlink() else ""
        if path.is_file() and not path.is_symlink():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        found[name] = (oct(state.st_mode), state.st_mtime_ns, content)
    return found


@pytest.fixture(scope="module")
def fresh(tmp_path_factory) -> Study:
    """A folder with a config and a user's file of rewards, where nothing was started."""
    config = copy.deepcopy(TINY)
    config["components"]["length"] = {"function": "my_rewards.py:brevity"}
    study = Study(tmp_path_factory.mktemp("fresh"), config)
    (study.folder / "my_rewards.py").write_text(REWARDS)
    return study


@pytest.fixture(scope="module")
def pruned(finished, tmp_path_factory) -> Study:
    """A finished study whose config then lost a seed, so that there is something to make again and to prune."""
    folder = tmp_path_factory.mktemp("pruned") / FOLDER
    shutil.copytree(finished.folder, folder, symlinks=True)
    return Study(folder, {**TINY, "seeds": [1]})


@pytest.mark.parametrize(
    "words",
    [
        ["all"],
        ["results/tiny/tables/summary.md", "--forceall"],
        ["--forcerun", "train"],
        ["--delete-all-output"],
        ["--until", "train"],
    ],
    ids=" ".join,
)
def test_no_target_changes_a_finished_study_in_a_dry_run(pruned, words):
    before = tree(pruned.folder)
    pruned.make(*words, "-n")
    after = tree(pruned.folder)
    assert {name: after.get(name) for name in {*before, *after} if before.get(name) != after.get(name)} == {}


def test_a_dry_run_leaves_a_fresh_folder_as_it_is(fresh):
    before = tree(fresh.folder)
    fresh.make("all", "--dry-run")
    assert tree(fresh.folder) == before  # no `results`, and no `__pycache__` beside the user's file


@pytest.mark.parametrize("command", ["plan", "status", "verify", "prune"])
def test_a_command_that_only_looks_changes_nothing(pruned, fresh, command):
    """Of a finished study, and of a folder where nothing was started; not even `.snakemake` is made there."""
    shutil.rmtree(fresh.folder / ".snakemake", ignore_errors=True)
    for study in (pruned, fresh):
        before = tree(study.folder)
        printed(study.command(command))
        assert tree(study.folder) == before
    assert not (fresh.folder / ".snakemake").exists()


def test_a_refused_dry_run_leaves_nothing(study):
    study.config = {"name": "study"}
    refusal(study.snakemake("-n"))
    assert [path.name for path in study.folder.iterdir()] == ["config.yaml"]
