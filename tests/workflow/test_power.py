"""`reward-ablation power` beside a study: it disturbs no start."""

import pytest

pytestmark = pytest.mark.slow


def test_a_key_in_a_file_is_unknown(study):
    study.config["effect"] = 0.1
    assert "unknown key 'effect'" in study.command("power").stderr


def test_power_before_any_run_makes_its_own_files_alone(study):
    result = study.command("power", *["--seed-sd", "0.02", "--effect", "0.3"])
    assert result.returncode == 0, result.stderr
    assert "length of the interval" in result.stdout
    assert {path.name for path in (study.results / "design").iterdir()} == {"power.csv", "power.pdf", "power.png"}
    assert {path.name for path in study.results.iterdir()} == {"design"}
