"""The Snakefile at the place where the workflow catalogue and `snakedeploy` look for it."""

import os

import pytest

from .conftest import ROOT, jobs_of, printed
from .starting import run

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
    planned = study.planned()
    (tmp_path / "Snakefile").write_text(DEPLOYED)
    snakefile = tmp_path / "Snakefile" if deployed else ROOT / "workflow" / "Snakefile"
    words = ["snakemake", "--snakefile", str(snakefile), "--cores", "2", "--dry-run", "--configfile", "config.yaml"]
    jobs = jobs_of(printed(run(words, tmp_path, ROOT / "workflow", os.environ)))
    assert jobs == planned | {"everything": 1}
