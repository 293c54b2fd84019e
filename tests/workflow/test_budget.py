"""`snakemake budget` in Snakemake itself: its keys are its own, and its file makes the chosen study."""

import re

import pytest
import yaml

from .test_config import errors_of

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--dry-run", "--config", "hours=4"], "hours: only `snakemake budget` takes this key"),
        (["--config", "hours=4", "--", "power"], "hours: only `snakemake budget` takes this key"),
        (["--", "budget"], "budget: no limit is stated; add --config hours=40"),
        (["--config", "hours=4", "run_hours=1", "questions=100", "--", "budget", "fetch"], "budget: makes nothing"),
    ],
)
def test_keys_of_the_command_are_refused_elsewhere(study, arguments, says):
    result = study.snakemake(*arguments)
    assert result.returncode == 1
    [error] = errors_of(result)
    assert says in error
    assert "Traceback" not in result.stderr
    assert not (study.results / "models").exists()


def test_the_written_file_beside_the_studys_makes_the_chosen_study(study):
    result = study.snakemake("--config", "hours=9", "run_hours=1", "questions=100", "write=b.yaml", "--", "budget")
    assert result.returncode == 0, result.stderr
    seeds = yaml.safe_load((study.folder / "b.yaml").read_text())["arms"]["seeds"]
    runs = sum(map(len, seeds.values()))
    assert runs in (8, 9)
    assert not study.results.exists()
    planned = study.snakemake("b.yaml", "--dry-run", "--quiet", "host", "--", "all")
    assert planned.returncode == 0, planned.stderr
    assert f"train {runs}" in re.sub(" +", " ", planned.stdout + planned.stderr)
