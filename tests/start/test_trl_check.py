"""TRL's check of the settings: settings that passed are remembered; refused and new settings are checked."""

import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from reward_ablation.config import trl_settings
from reward_ablation.start import before_jobs
from reward_ablation.start.before_jobs import check_training_settings, remember_settings
from reward_ablation.study.resolve import resolve
from reward_ablation.system.errors import StudyError
from workflow.starting import forking_python


@pytest.mark.slow
def test_what_has_passed_is_not_checked_again(config, tmp_path, monkeypatch):
    started = []
    really = subprocess.run
    monkeypatch.setattr(sys, "executable", forking_python())
    monkeypatch.setattr(
        subprocess, "run", lambda command, **options: started.append(command) or really(command, **options)
    )

    def check():
        before = len(started)
        study = resolve(config, "study.yaml", tmp_path)
        check_training_settings(study, tmp_path / "results", print)
        remember_settings(study, tmp_path / "results")
        return len(started) - before

    check_training_settings(resolve(config, "study.yaml", tmp_path), tmp_path / "results", print)
    assert not (tmp_path / "results").exists()  # the check itself writes nothing
    started.clear()

    assert check() == 1
    assert check() == 0
    config["training"]["num_generations"] = 7  # does not divide the batch
    with pytest.raises(StudyError, match="num_generations"):
        check()
    del config["training"]["num_generations"]
    config["seeds"] = [3]
    config["components"]["format"]["parameters"]["format"] = "boxed"
    assert check() == 0
    monkeypatch.setattr(before_jobs, "installed", lambda: {"trl": "9.9"})
    assert check() == 1
    assert len(started) == 3


@pytest.mark.parametrize("installed", ["1.17.0", "1.16.1", "1.15.0", "1.16.0.dev0", None])
def test_another_trl_is_refused_at_the_start_and_in_each_job(config, tmp_path, monkeypatch, installed):
    from reward_ablation.sft import __main__ as sft
    from reward_ablation.training import __main__ as training

    def version(package):
        if installed is None:
            raise PackageNotFoundError(package)
        return installed

    monkeypatch.setattr(trl_settings, "version", version)
    refused = f"^trl: version {installed or 'none'} is installed, and this workflow needs 1.16.0.*pip install trl==1.16"
    starts = [
        lambda: check_training_settings(resolve(config, "study.yaml", tmp_path), tmp_path, print),
        lambda: training.train(None, nodes=1),
        lambda: sft.main(["--spec", "{}", *(f"--{name}={tmp_path}" for name in ("model", "problems", "output"))]),
    ]
    for start in starts:
        with pytest.raises(StudyError, match=refused):
            start()


def test_the_needed_trl_is_the_one_that_the_project_pins():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert f"trl=={trl_settings.TRL}" in project["dependencies"]
