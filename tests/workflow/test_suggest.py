"""`snakemake suggest` as a user starts it, on a study whose tables are made up: nothing is trained."""

import copy

import pytest

from design.surfaces import FIFTEEN, hill
from design.test_surface_tables import by_run
from reward_ablation.analysis.study_file import read_study
from reward_ablation.analysis.tables import write_tables
from reward_ablation.design.surface.tables import SCHEMAS, surface_tables
from reward_ablation.study.resolve import resolve

from .conftest import TINY, Study

pytestmark = pytest.mark.slow


def test_the_next_arm_is_read_from_the_tables_of_the_study(tmp_path):
    config = copy.deepcopy(TINY)
    config["arms"] = {"design": "simplex", "steps": 4}
    study = Study(tmp_path, config)
    jobs = study.planned("all")
    assert {name: jobs[name] for name in ("train", "tables_weight_surface", "figure_weight_surface")} == {
        "train": 30,
        "tables_weight_surface": 1,
        "figure_weight_surface": 1,
    }

    resolve(config, "config.yaml", tmp_path).write_description(study.results / "study.json")
    described = read_study(study.results / "study.json")
    write_tables(surface_tables(described, by_run(described, hill(FIFTEEN))), SCHEMAS, study.results / "tables")
    result = study.snakemake("--", "suggest")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Next arm by expected improvement (" in result.stdout
    assert "weights: {correctness: 0.5" in result.stdout
    assert not (study.results / "runs").exists()

    beside = study.snakemake("--", "suggest", "all")
    assert "suggest: cannot be combined with the target all; run one after the other" in beside.stderr
    # The arms of the config are no longer those of the tables.
    study.config["arms"]["steps"] = 5
    assert "the study has changed since its tables were made" in study.snakemake("--", "suggest").stderr
