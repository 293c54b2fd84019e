"""`snakemake power` in Snakemake itself: its keys are its own, and it disturbs no start."""

import pytest

from .test_config import errors_of

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--config", "effect=0.1", "--", "plan"], "effect: only `snakemake power` takes this key"),
        (["--dry-run", "--config", "effect=0.1"], "effect: only `snakemake power` takes this key"),
        (["--config", "effect=0.1"], "effect: only `snakemake power` takes this key"),
        (["--config", "effect=0.1", "--", "power", "fetch"], "power: makes nothing, and fetch does"),
        (["--", "power"], "power: no arm has two finished seeds"),
    ],
)
def test_keys_of_the_command_are_refused_elsewhere(study, arguments, says):
    result = study.snakemake(*arguments)
    assert result.returncode == 1
    [error] = errors_of(result)
    assert says in error
    assert "Traceback" not in result.stderr
    assert not (study.results / "models").exists()


def test_a_key_in_a_file_is_unknown(study):
    study.config["effect"] = 0.1
    assert "unknown key 'effect'" in study.snakemake("--", "power").stderr


def test_power_before_any_run_makes_its_own_files_alone(study):
    result = study.snakemake("--config", "seed_sd=0.02", "effect=[0.3]", "--", "power")
    assert result.returncode == 0, result.stderr
    assert "length of the interval" in result.stdout
    assert {path.name for path in (study.results / "design").iterdir()} == {"power.csv", "power.pdf", "power.png"}
    assert {path.name for path in study.results.iterdir()} == {"design"}
