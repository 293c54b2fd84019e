"""What a job asks Slurm for, and which jobs share a Slurm job."""

from types import SimpleNamespace

import pytest

from reward_ablation.cluster.request import arguments, bundles, request_of
from reward_ablation.cluster.site import Site
from reward_ablation.system.errors import StudyError

SITE = Site.model_validate(
    {
        "account": "lab",
        "partition": "all",
        "gpu_type": "h100",
        "sbatch": "--mail-type=FAIL --nice=10",
        "train": {"hours": 24, "mem_gb": 64, "cpus": 8, "partition": "gpu", "constraint": "ib"},
        "evaluate": {"hours": 0.5, "mem_gb": 1.5},
    }
)


def job(rule="train", threads=1, attempt=1, **resources):
    return SimpleNamespace(rule=SimpleNamespace(name=rule), resources=resources, threads=threads, attempt=attempt)


def request(rule="train", least_memory=0, site=SITE, **job_has):
    return request_of([job(rule, **job_has)], site, lambda job: least_memory)


def options(gpus_by="gpus", **asked):
    return arguments(request(**asked), gpus_by)


def test_the_site_says_what_the_job_does_not():
    assert options(gpu=2, nodes=1) == [
        *("--account=lab", "--partition=gpu", "--constraint=ib", "--nodes=1", "--ntasks=1", "--ntasks-per-node=1"),
        *("--cpus-per-task=8", "--mem=64000", "--time=1440", "--gpus=h100:2", "--mail-type=FAIL", "--nice=10"),
    ]


def test_an_arms_resources_win_over_the_site():
    resources = {"slurm_partition": "big", "slurm_account": "other", "gpu_model": "a100", "slurm_extra": "--exclusive"}
    numbers = {"gpu": 4, "nodes": 2, "mem_mb": 500_000, "runtime": 60, "cpus_per_task": 32}
    asked = options("gres", **resources, **numbers)
    assert {"--partition=big", "--account=other", "--mem=500000", "--time=60", "--cpus-per-task=32"} <= {*asked}
    assert asked[-4:] == ["--gres=gpu:a100:2", "--mail-type=FAIL", "--nice=10", "--exclusive"]


@pytest.mark.parametrize(
    ("asked", "some"),
    [
        ({"gpu": 4, "nodes": 2}, ["--gpus-per-node=h100:2", "--nodes=2"]),  # as many on each
        ({"rule": "evaluate", "threads": 4}, ["--cpus-per-task=4", "--mem=1500", "--time=30", "--partition=all"]),
        ({"mem_mb": 0}, ["--mem=64000"]),  # Snakemake would size memory by the inputs; the profile sets that to 0
    ],
)
def test_some_of_what_a_job_asks_for(asked, some):
    words = options(**asked)
    assert {*some} <= {*words}
    if not asked.get("gpu"):
        assert not [word for word in words if "gpu" in word and "partition" not in word]


def test_the_narrowest_constraint_wins():
    site = SITE.model_copy(update={"sbatch": "--constraint=slow"})
    for asked, constraint in (
        ({"rule": "evaluate"}, "slow"),
        ({"rule": "train"}, "ib"),
        ({"rule": "train", "slurm_extra": "--constraint=a100"}, "a100"),
    ):
        words = options(site=site, **asked)
        assert [word for word in words if "constraint" in word] == [f"--constraint={constraint}"]


def test_a_later_attempt_has_more_time_but_for_training_which_goes_on():
    """More time may exceed a limit of the quality of service: the job would wait for ever."""
    for rule, minutes in (("evaluate", 90), ("sft", 1440)):
        found = request(rule, 65_000, attempt=3)
        assert (found.minutes, found.mem_mb) == (minutes, 65_000)


def test_options_of_the_sites_plugins_reach_sbatch_and_the_arms_win():
    site = SITE.model_copy(update={"site_options": ("container-image", "auks"), "sbatch": "--auks --container-image=a"})
    assert options(site=site, slurm_extra="--container-image=b")[-2:] == ["--auks", "--container-image=b"]


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ({"cpus_per_task": "many"}, "resources of a train job: cpus_per_task: 'many' is not a whole number"),
        ({"slurm_partition": "gpu\0"}, "slurm_partition: 'gpu\\x00' has a NUL character"),
        ({"slurm_extra": "--arra=1-2"}, "--arra may not be set"),
    ],
)
def test_a_resource_that_no_job_can_have_is_one_line(resources, message):
    with pytest.raises(StudyError) as error:
        request(**resources)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("gpus_by", "gres"), [("gres", "--gres=gpu:h100:1,lscratch:100"), ("gpus", "--gres=lscratch:100")]
)
def test_generic_resources_stand_beside_the_gpus(gpus_by, gres):
    """A second --gres would take the place of the first."""
    site = SITE.model_copy(update={"sbatch": "--gres=lscratch:100"})
    assert [word for word in options(gpus_by, site=site, gpu=1) if "gres" in word] == [gres]


@pytest.mark.parametrize(
    ("bundle", "of_training", "of_evaluation", "slurm_jobs"),
    [
        (None, 1, 1, [["train"], ["evaluate"], ["evaluate_base"]]),
        ("run", 1, 1, [["train", "evaluate"], ["evaluate_base"]]),
        ("run", 0, 1, [["train"], ["evaluate"], ["evaluate_base"]]),  # that job would have no GPU
    ],
)
def test_which_jobs_are_one_slurm_job(bundle, of_training, of_evaluation, slurm_jobs):
    site = SITE.model_copy(update={"bundle": bundle})
    train, evaluate = job("train", gpu=of_training), job("evaluate", gpu=of_evaluation)
    after = {id(train): [evaluate, job("figure")]}
    found = bundles([train, evaluate, job("evaluate_base")], site, lambda job: after.get(id(job), []))
    assert [[each.rule.name for each in parts] for parts in found] == slurm_jobs


def test_a_training_with_its_evaluation_asks_for_the_time_of_both():
    sections = {
        "train": {"hours": 20, "mem_gb": 8, "cpus": 2},
        "evaluate": {"hours": 4.5, "mem_gb": 16, "cpus": 8, "partition": "cpu"},
    }
    train, evaluate = job("train", gpu=2, slurm_partition="gpu"), job("evaluate", gpu=1)
    of_evaluation = {id(evaluate): 32_000}
    found = request_of([train, evaluate], Site.model_validate(sections), lambda job: of_evaluation.get(id(job), 0))
    assert (found.kind, found.partition) == ("train + evaluate (bundle: run)", "gpu")
    assert (found.minutes, found.cpus, found.mem_mb, found.gpus) == (1470, 8, 32_000, 2)
