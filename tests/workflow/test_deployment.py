"""The Snakefile at the place where the workflow catalogue and `snakedeploy` look for it."""

import os
import re

import pytest
import yaml

from .conftest import ROOT, TINY
from .starting import snakemake

pytestmark = pytest.mark.slow

#: What `snakedeploy` writes into the folder of a study.
DEPLOYED = f"""
configfile: "config.yaml"

module study:
    snakefile: {str(ROOT / "workflow" / "Snakefile")!r}
    config: config

use rule * from study
"""


@pytest.mark.parametrize("deployed", [False, True], ids=["included", "as a module"])
def test_the_default_target_is_the_whole_study(study, tmp_path, deployed):
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(TINY, sort_keys=False))
    (tmp_path / "Snakefile").write_text(DEPLOYED)
    snakefile = tmp_path / "Snakefile" if deployed else ROOT / "workflow" / "Snakefile"
    options = ["--snakefile", str(snakefile), "--directory", str(tmp_path), "--cores", "2", "--dry-run"]
    result = snakemake([*options, "--configfile", "config.yaml"], tmp_path, ROOT / "workflow", os.environ)
    assert result.returncode == 0, result.stdout + result.stderr
    counts = dict(re.findall(r"^(\w+) +(\d+)$", result.stdout + result.stderr, re.MULTILINE))
    counts.pop("everything"), counts.pop("total")
    planned = study.planned()
    planned.pop("all"), planned.pop("total")
    assert {rule: int(count) for rule, count in counts.items() if rule != "all"} == planned
