"""Options of the training command and resources of the job, for each layout, from a dry run."""

import re

import pytest

from .conftest import ROOT

SERVER = {"mode": "server", "gpus": 2, "tensor_parallel_size": 2}
#: Launch of arms by name, what of it their commands are told beside the spec, and what their jobs ask for.
LAYOUTS = {
    "plain": ({"vllm": None}, "--nodes 1", "GPUs: 1, nodes: 1, CPU threads on each: 1"),
    "shared": (
        {"gpus": 4, "nodes": 2, "strategy": "zero3", "vllm": None},
        "--nodes 2",
        "GPUs: 4, nodes: 2, CPU threads on each: 2",
    ),
    "colocate": (  # as the study says
        {"gpus": 2},
        "--nodes 1 --vllm-memory-percent 25 --vllm-sleep 1",
        "GPUs: 2, nodes: 1, CPU threads on each: 2",
    ),
    "server": (
        {"gpus": 2, "vllm": SERVER},
        "--nodes 1 --vllm-memory-percent 90 --vllm-sleep 0",
        "GPUs: 4, nodes: 1, CPU threads on each: 2",
    ),
}


@pytest.fixture
def layouts(study):
    """A study with an arm of each layout."""
    study.config["seeds"] = [0]
    colocate = {"mode": "colocate", "gpu_memory_utilization": 0.25, "enable_sleep_mode": True}
    study.config["launch"] = {"gpus": 1, "vllm": colocate}
    weights = {next(iter(study.config["components"])): 1}
    arms = {name: {"weights": weights, "launch": launch} for name, (launch, *_) in LAYOUTS.items()}
    study.config["arms"] = {"design": "list", "arms": arms}
    return study


def test_each_layout_is_told_what_is_not_in_its_spec(layouts):
    result = layouts.snakemake("--dry-run", "--printshellcmds")
    said = result.stdout + result.stderr
    assert result.returncode == 0, said
    told = re.findall(r"--run-dir .*?runs/(\w+)-\S+ (--nodes .*?) > ", said)
    assert dict(told) == {name: options for name, (_, options, _) in LAYOUTS.items()}


@pytest.mark.parametrize(
    ("profile", "site"),
    [("default", []), ("slurm", ["--slurm-study-site", str(ROOT / "profiles" / "slurm" / "site.yaml")])],
)
def test_a_dry_run_shows_what_each_layout_asks_for(layouts, profile, site):
    result = layouts.snakemake("--dry-run", "--profile", str(ROOT / "profiles" / profile), *site)
    said = result.stdout + result.stderr
    assert result.returncode == 0, said
    shown = re.findall(r"train (\w+)-\S+; (GPUs: .*)", said)
    assert dict(shown) == {name: asked for name, (*_, asked) in LAYOUTS.items()}
