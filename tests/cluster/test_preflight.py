from types import SimpleNamespace

import pytest

from reward_ablation.cluster.preflight import check_dry_run, check_jobs, requests_of
from reward_ablation.cluster.site import Site
from reward_ablation.system.errors import StudyError

from .test_fit import CLUSTER

SITE = Site.model_validate({"train": {"hours": 1, "mem_gb": 1}, "evaluate": {"hours": 1, "mem_gb": 1}})


def job(rule: str, **resources):
    return SimpleNamespace(rule=SimpleNamespace(name=rule), resources=resources, threads=1, attempt=1)


@pytest.fixture
def site_file(tmp_path):
    path = tmp_path / "site.yaml"
    path.write_text("train: {hours: 1, mem_gb: 1}\nevaluate: {hours: 1, mem_gb: 1}\n")
    return path


def test_jobs_that_ask_for_the_same_are_one_request():
    jobs = [job("train", gpu=1), job("train", gpu=2), job("evaluate", gpu=1), job("train", gpu=1)]
    assert [request.kind for request in requests_of(jobs, SITE)] == ["evaluate", "train", "train"]


def test_a_request_that_does_not_fit_is_told_with_the_site_file(site_file):
    with pytest.raises(StudyError, match=r"site\.yaml: train: 7 nodes; partition gpu has 2"):
        check_jobs([job("train", nodes=7)], SITE, site_file, CLUSTER)


def test_a_dry_run_without_slurm_says_what_is_not_checked(monkeypatch, site_file):
    monkeypatch.setenv("PATH", "")
    assert check_dry_run([job("train")], site_file) == (
        f"{site_file}: not checked whether Slurm takes these jobs: sinfo: no such command; is Slurm installed on this "
        "machine?"
    )


def test_a_dry_run_without_slurm_checks_what_needs_none(monkeypatch, site_file):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(StudyError, match="cpus_per_task: 'many' is not a whole number"):
        check_dry_run([job("train", cpus_per_task="many")], site_file)
