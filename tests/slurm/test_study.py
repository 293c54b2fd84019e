"""A study through the Slurm profile, from training to tables."""

from __future__ import annotations

import pandas as pd
import pytest

from .studies import ClusterStudy

pytestmark = pytest.mark.slow


def test_a_study_to_its_tables_in_a_folder_whose_name_is_a_command(study: ClusterStudy, undisturbed: ClusterStudy):
    assert not list(undisturbed.folder.parent.rglob("PWNED"))
    tables = [f"results/{study.config['name']}/tables/{name}.csv" for name in ("evaluation_by_run", "cost")]
    status, told = study.run(*tables)
    assert status == 0, told
    assert undisturbed.digests().items() <= study.digests().items()  # and answers
    jobs = sorted(name.partition("-")[0] for name in study.slurm_jobs())
    expected = ["evaluate.one", "evaluate.two", "evaluate_base", "train.one", "train.two"]
    assert jobs == expected, "and nothing that takes seconds"
    cost = pd.read_csv(study.results / "tables" / "cost.csv").set_index("arm")
    own, of_jobs = cost["cpu_hours"], cost["cpu_hours_of_jobs"]
    assert ((of_jobs >= own) & (own > 0)).all(), "a job begins before its training does, perhaps by less than a digit"
    assert not list(study.results.glob("logs/slurm/**/*.log")), "logs of jobs that ended well are gone"
