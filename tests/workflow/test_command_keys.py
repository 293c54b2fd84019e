"""Keys of --config that belong to one command, in Snakemake itself."""

import pytest

from .test_config import errors_of

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--dry-run", "--config", "hours=4"], "hours: only `snakemake budget` takes this key"),
        (["--config", "hours=4", "--", "power"], "hours: only `snakemake budget` takes this key"),
        (["--", "budget"], "budget: no limit is stated; add --config hours=40"),
        (
            ["--config", "hours=4", "run_hours=1", "questions=100", "--", "budget", "fetch"],
            "budget: cannot be combined with the target",
        ),
        (["--config", "effect=0.1", "--", "plan"], "effect: only `snakemake power` takes this key"),
        (["--dry-run", "--config", "effect=0.1"], "effect: only `snakemake power` takes this key"),
        (["--config", "effect=0.1"], "effect: only `snakemake power` takes this key"),
        (["--config", "effect=0.1", "--", "power", "fetch"], "power: cannot be combined with the target fetch"),
        (["--", "power"], "power: no arm has two finished seeds"),
    ],
)
def test_keys_of_a_command_are_refused_elsewhere(study, arguments, says):
    result = study.snakemake(*arguments)
    assert result.returncode == 1
    [error] = errors_of(result)
    assert says in error
    assert "Traceback" not in result.stderr
    assert not (study.results / "models").exists()
