"""A Slurm cluster of its own for each test process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from .cluster import Cluster, missing_programs
from .studies import ClusterStudy


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of two nodes; after each test it has no job that lives, and all nodes are idle."""
    missing = missing_programs()
    if missing:
        reason = f"needs Slurm (Debian: apt-get install slurm-wlm munge); not here: {', '.join(missing)}"
        (pytest.fail if os.environ.get("REWARD_ABLATION_NEED_SLURM") else pytest.skip)(reason)
    with Cluster(tmp_path_factory.mktemp("slurm") / "c") as running:
        yield running


@pytest.fixture(autouse=True)
def _clear_cluster(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "cluster" in request.fixturenames:
        request.getfixturevalue("cluster").clear()


@pytest.fixture(scope="session")
def undisturbed(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> ClusterStudy:
    """A study of two runs that nothing went wrong in, in a folder that shells and Slurm must have quoted."""
    folder = tmp_path_factory.mktemp("undisturbed") / "100%j of it's $HOME $(touch PWNED) space"
    study = ClusterStudy(folder, cluster)
    status, told = study.train()
    assert status == 0, told
    return study


@pytest.fixture
def study(undisturbed: ClusterStudy, tmp_path: Path) -> Iterator[ClusterStudy]:
    """The same study before its training: the model and the data are there."""
    made = undisturbed.beside(tmp_path / "study")
    yield made
    made.end()


@pytest.fixture(scope="session")
def evaluated(undisturbed: ClusterStudy, tmp_path_factory: pytest.TempPathFactory) -> ClusterStudy:
    """The same study with its evaluations, each in the Slurm job of its run, that nothing went wrong in."""
    study = undisturbed.beside(tmp_path_factory.mktemp("evaluated") / "study")
    study.site["bundle"] = "run"
    status, told = study.train()
    assert status == 0, told
    return study
