"""`mixed_provenance: refuse`: what the tables would refuse is refused at the start, before the first job."""

from __future__ import annotations

import json
import platform
from importlib.metadata import version

import pytest

from reward_ablation.start.before_jobs import check_before_training
from reward_ablation.study.resolve import resolve
from reward_ablation.system.errors import StudyError

HARDWARE = {"machine": "x86_64", "cpus": 2, "gpus": [], "processes": 1}


@pytest.fixture
def start(config, tmp_path):
    """A study of four runs, of which these are finished, about to be started again."""

    def check(*finished: dict, refuse: bool = True, **options) -> None:
        switch = {"mixed_provenance": "refuse" if refuse else "tell"}
        study = resolve(config | switch, "config.yaml", tmp_path)
        for (name, run), changes in zip(study.runs.items(), finished, strict=False):
            packages = {"python": platform.python_version(), "numpy": version("numpy")} | changes.get("packages", {})
            hardware = HARDWARE | changes.get("hardware", {})
            attempt = {"from_step": 0, "to_step": 3, "packages": packages, "hardware": hardware}
            folder = tmp_path / study.config.root / "runs" / name
            folder.mkdir(parents=True, exist_ok=True)
            record = {"code": changes.get("code", run.code), "attempts": [attempt]}
            (folder / "run.json").write_text(json.dumps(record))
        check_before_training(study, **options)

    return check


ALL_ALIKE = [{}, {}, {}, {}]
OLD_NUMPY = {"packages": {"numpy": "1.0"}}
OTHER_GPU = {"hardware": {"gpus": ["NVIDIA A100"]}}
OLD_CODE = {"code": "0" * 16}


def test_a_control_beside_finished_runs_is_of_the_same_code(start, config):
    config["components"]["random"] = {"function": "random", "scored": "where_trained"}
    config["arms"]["arms"]["noise"] = {"weights": {"random": 1}}
    start(*ALL_ALIKE)  # the control is to be trained
    start(*ALL_ALIKE, {}, {})  # it is trained, too
    with pytest.raises(StudyError, match="code is"):
        start(*ALL_ALIKE, OLD_CODE, {}, code_counts=False)


def test_runs_that_are_alike_pass(start):
    start()
    start({}, {})
    start(*ALL_ALIKE)


@pytest.mark.parametrize("finished", [[{}, OLD_NUMPY], [OLD_NUMPY], [{}, OTHER_GPU]])
def test_by_default_nothing_is_refused(start, finished):
    start(*finished, refuse=False)


def test_finished_runs_that_differ_are_refused(start):
    with pytest.raises(StudyError, match=r"^results/study: GPUs is none in runs/a-\w+/seed0 and 1 x NVIDIA A100"):
        start({}, OTHER_GPU, {}, {})


def test_a_package_that_has_changed_since_is_refused_while_runs_are_missing(start):
    with pytest.raises(StudyError) as error:
        start(OLD_NUMPY)
    assert "numpy is 1.0 in runs/a-" in str(error.value)
    assert f"and {version('numpy')} in the runs to be trained now; delete the runs" in str(error.value)
    start(*[OLD_NUMPY] * 4)  # all are there, and alike


def test_runs_of_older_code_are_trained_again_and_do_not_count(start):
    start(OLD_CODE | OLD_NUMPY, {})


def test_where_older_code_is_kept_it_counts(start):
    with pytest.raises(StudyError, match=r"code is 0000000000000000 in runs/"):
        start(OLD_CODE, {}, code_counts=False)
