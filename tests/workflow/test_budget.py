"""`reward-ablation budget`: its file makes the chosen study."""

import re

import pytest
import yaml

pytestmark = pytest.mark.slow


def test_the_written_file_beside_the_studys_makes_the_chosen_study(study):
    result = study.command("budget", *["--hours", "9", "--run-hours", "1", "--questions", "100", "--write", "b.yaml"])
    assert result.returncode == 0, result.stderr
    seeds = yaml.safe_load((study.folder / "b.yaml").read_text())["arms"]["seeds"]
    runs = sum(map(len, seeds.values()))
    assert runs in (8, 9)
    assert not study.results.exists()
    planned = study.snakemake("b.yaml", "--dry-run", "--quiet", "host", "--", "all")
    assert planned.returncode == 0, planned.stderr
    assert f"train {runs}" in re.sub(" +", " ", planned.stdout + planned.stderr)
