import pytest

from reward_ablation.cluster.request import arguments, request_of
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


def test_the_site_says_what_the_job_does_not():
    request = request_of(SITE, "train", {"gpu": 2, "nodes": 1}, threads=1)
    assert arguments(request, "gpus") == [
        "--account=lab",
        "--partition=gpu",
        "--constraint=ib",
        "--nodes=1",
        "--ntasks=1",
        "--ntasks-per-node=1",
        "--cpus-per-task=8",
        "--mem=64000",
        "--time=1440",
        "--gpus=h100:2",
        "--mail-type=FAIL",
        "--nice=10",
    ]


def test_an_arms_resources_win_over_the_site():
    resources = {
        "gpu": 4,
        "nodes": 2,
        "mem_mb": 500_000,
        "runtime": 60,
        "slurm_partition": "big",
        "slurm_account": "other",
        "gpu_model": "a100",
        "cpus_per_task": 32,
        "slurm_extra": "--exclusive",
    }
    told = arguments(request_of(SITE, "train", resources, threads=1), "gres")
    assert "--partition=big" in told
    assert "--account=other" in told
    assert "--mem=500000" in told
    assert "--time=60" in told
    assert "--cpus-per-task=32" in told
    assert told[-4:] == ["--gres=gpu:a100:2", "--mail-type=FAIL", "--nice=10", "--exclusive"]


def test_gpus_of_several_nodes_are_as_many_on_each():
    told = arguments(request_of(SITE, "train", {"gpu": 4, "nodes": 2}, threads=1), "gpus")
    assert "--gpus-per-node=h100:2" in told
    assert "--nodes=2" in told


def test_a_job_without_a_gpu_asks_for_none():
    told = arguments(request_of(SITE, "evaluate", {"gpu": 0}, threads=4), "gpus")
    assert not [option for option in told if "gpu" in option and "partition" not in option]
    assert "--cpus-per-task=4" in told
    assert "--mem=1500" in told
    assert "--time=30" in told


@pytest.mark.parametrize("rule", ["evaluate", "evaluate_base"])
def test_evaluations_follow_the_section_evaluate(rule):
    assert request_of(SITE, rule, {}, threads=1).partition == "all"


def test_a_later_attempt_gets_more_time_and_after_too_little_memory_more_of_it():
    request = request_of(SITE, "evaluate", {}, threads=1, attempt=3, least_memory=64_000)
    assert request.minutes == 90
    assert request.mem_mb == 64_000
    assert request_of(SITE, "evaluate", {}, threads=1, least_memory=1).mem_mb == 1500


def test_a_supervised_start_follows_the_section_train_and_goes_on_too():
    start = request_of(SITE, "sft", {"gpu": 1}, threads=1, attempt=3)
    assert start == request_of(SITE, "train", {"gpu": 1}, threads=1)


def test_training_that_goes_on_gets_the_same_time_again():
    """More time may exceed a limit of the quality of service, and then the job would wait for ever."""
    assert request_of(SITE, "train", {}, threads=1, attempt=3).minutes == 24 * 60


def test_an_arms_options_of_sbatch_are_checked():
    with pytest.raises(StudyError, match="--array may not be set"):
        request_of(SITE, "train", {"slurm_extra": "--array=1-3"}, threads=1)


def test_options_of_the_sites_plugins_reach_sbatch_and_the_arms_win():
    names = {"site_options": ("container-image", "auks"), "sbatch": "--auks --container-image=a"}
    site = SITE.model_copy(update=names)
    told = arguments(request_of(site, "train", {"slurm_extra": "--container-image=b"}, threads=1), "gpus")
    assert told[-2:] == ["--auks", "--container-image=b"]


@pytest.mark.parametrize(
    ("resources", "told"),
    [
        ({"cpus_per_task": "many"}, "resources of a train job: cpus_per_task: 'many' is not a whole number"),
        ({"slurm_extra": 5}, "sbatch option 5: not an option"),
        ({"slurm_partition": "gpu\0"}, "slurm_partition: 'gpu\\x00' has a NUL character"),
        ({"slurm_extra": "--arra=1-2"}, "--arra may not be set"),
    ],
)
def test_a_resource_that_no_job_can_have_is_told(resources, told):
    with pytest.raises(StudyError) as error:
        request_of(SITE, "train", resources, threads=1)
    assert told in str(error.value)


def test_a_partition_may_be_called_by_a_number():
    assert request_of(SITE, "train", {"slurm_partition": 5}, threads=1).partition == "5"


@pytest.mark.parametrize(
    ("resources", "constraint"),
    [
        ({}, "ib"),  # of the section
        ({"constraint": "a100"}, "a100"),
        ({"slurm_extra": "--constraint=h100"}, "h100"),
    ],
)
def test_one_constraint_counts_and_the_arms_wins(resources, constraint):
    site = SITE.model_copy(update={"sbatch": "--constraint=slow"})
    told = arguments(request_of(site, "train", resources, threads=1), "gpus")
    assert [word for word in told if "constraint" in word] == [f"--constraint={constraint}"]
    told = arguments(request_of(site, "evaluate", {}, threads=1), "gpus")
    assert "--constraint=slow" in told


def test_generic_resources_stand_beside_the_gpus():
    """A second --gres would take the place of the first."""
    site = SITE.model_copy(update={"sbatch": "--gres=lscratch:100"})
    told = arguments(request_of(site, "train", {"gpu": 1}, threads=1), "gres")
    assert [word for word in told if "gres" in word] == ["--gres=gpu:h100:1,lscratch:100"]
    told = arguments(request_of(site, "train", {"gpu": 1}, threads=1), "gpus")
    assert [word for word in told if "gres" in word] == ["--gres=lscratch:100"]


def test_defaults_of_zero_say_nothing():
    """Snakemake would size memory by the inputs; the profile sets that to 0."""
    assert request_of(SITE, "train", {"mem_mb": 0}, threads=1).mem_mb == 64000
