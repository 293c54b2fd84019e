"""TRL's check of the settings: what has passed is remembered, what is refused or new is not."""

import subprocess

import pytest

from reward_ablation.planning import trl_check
from reward_ablation.planning.trl_check import check_training_settings
from reward_ablation.study.errors import StudyError
from reward_ablation.study.resolve import resolve


@pytest.mark.slow
def test_what_has_passed_is_not_checked_again(config, tmp_path, monkeypatch):
    started = []
    really = subprocess.run
    monkeypatch.setattr(
        subprocess, "run", lambda command, **options: started.append(command) or really(command, **options)
    )

    def check():
        before = len(started)
        check_training_settings(resolve(config, "study.yaml", tmp_path), tmp_path)
        return len(started) - before

    assert check() == 1
    assert check() == 0
    config["training"]["num_generations"] = 7  # does not divide the batch
    with pytest.raises(StudyError, match="num_generations"):
        check()
    del config["training"]["num_generations"]
    config["seeds"] = [3]
    config["components"]["format"]["parameters"]["format"] = "boxed"
    assert check() == 0
    monkeypatch.setattr(trl_check, "installed", lambda: {"trl": "9.9"})
    assert check() == 1
    assert len(started) == 3
