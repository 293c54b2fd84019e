"""A dry run changes nothing on disk, whatever its target; nor does a list or a drawing."""

from __future__ import annotations

import copy
import hashlib
import os
import shutil
from pathlib import Path

import pytest
import yaml

from .conftest import FOLDER, ROOT, TINY
from .starting import command_line, snakemake

pytestmark = pytest.mark.slow

#: Targets, each with its options.
TARGETS = {
    "all": [],
    "results/tiny/tables/summary.md": [],
    "everything again": ["--forceall"],
    "training again": ["--forcerun", "train"],
    "deleting": ["--delete-all-output"],
    "only training": ["--until", "train"],
}

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
        if name == ".snakemake" or (
            name.startswith(".snakemake/") and name.removeprefix(".snakemake/") in OF_SNAKEMAKE
        ):
            continue
        state = path.lstat()
        content = os.readlink(path) if path.is_symlink() else ""
        if path.is_file() and not path.is_symlink():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        found[name] = (oct(state.st_mode), state.st_mtime_ns, content)
    return found


def config_of(seeds: list[int]) -> dict:
    """The tiny study with a file of the user's, and with these seeds."""
    return {**copy.deepcopy(TINY), "seeds": seeds}


@pytest.fixture(scope="module")
def fresh(tmp_path_factory) -> Path:
    """A folder with a config and a user's file of rewards, where nothing was started."""
    folder = tmp_path_factory.mktemp("fresh")
    config = config_of([0, 1])
    config["components"]["length"] = {"function": "my_rewards.py:brevity"}
    (folder / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    (folder / "my_rewards.py").write_text(REWARDS)
    return folder


@pytest.fixture(scope="module")
def pruned(finished, tmp_path_factory) -> Path:
    """A finished study whose config then lost a seed, so that there is something to make again and to prune."""
    folder = tmp_path_factory.mktemp("pruned") / FOLDER
    shutil.copytree(finished.folder, folder, symlinks=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(config_of([1]), sort_keys=False))
    return folder


def started(folder: Path, *arguments: str):
    """Start Snakemake in a folder, as a user whose Python writes compiled modules."""
    options = ["--snakefile", str(ROOT / "Snakefile"), "--directory", str(folder), "--cores", "1"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return snakemake([*arguments, *options, "--configfile", "config.yaml"], folder, ROOT / "workflow", environment)


def unchanged_by(folder: Path, *arguments: str) -> str:
    """What a start prints that must leave the folder as it is."""
    before = tree(folder)
    result = started(folder, *arguments)
    assert "Traceback" not in result.stderr
    after = tree(folder)
    assert {name: after.get(name) for name in {*before, *after} if before.get(name) != after.get(name)} == {}
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


@pytest.mark.parametrize("target", [*TARGETS])
def test_no_target_changes_a_finished_study_in_a_dry_run(pruned, target):
    unchanged_by(pruned, *([] if " " in target or target == "deleting" else [target]), "-n", *TARGETS[target])


def test_a_dry_run_leaves_a_fresh_folder_as_it_is(fresh):
    before = tree(fresh)
    started(fresh, "all", "--dry-run")
    assert tree(fresh) == before  # no `results`, and no `__pycache__` beside the user's file
    for path in (fresh / ".snakemake").rglob("*"):
        assert path.relative_to(fresh / ".snakemake").as_posix() in OF_SNAKEMAKE


@pytest.mark.parametrize("command", ["plan", "status", "verify", "prune"])
def test_a_command_that_only_looks_changes_nothing(pruned, fresh, command):
    """Of a finished study, and of a folder where nothing was started; not even `.snakemake` is made there."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for folder in (pruned, fresh):
        before = tree(folder)
        result = command_line(folder, ROOT / "workflow", environment, command, "config.yaml")
        assert (result.returncode, tree(folder)) == (0, before), result.stdout + result.stderr


def test_a_refused_dry_run_leaves_nothing(tmp_path):
    (tmp_path / "config.yaml").write_text("name: study\n")
    before = tree(tmp_path)
    assert started(tmp_path, "-n").returncode == 1
    assert not (tmp_path / ".snakemake").exists()
    assert tree(tmp_path) == before
