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
SLURM = ["--profile", str(ROOT / "profiles/slurm"), "--slurm-study-site", str(ROOT / "profiles/slurm/site.yaml")]


@pytest.mark.parametrize("profile", [["--profile", str(ROOT / "profiles/default")], SLURM], ids=["default", "slurm"])
def test_each_layout_is_told_what_is_not_in_its_spec_and_shown_with_what_it_asks_for(study, profile):
    study.config["seeds"] = [0]
    colocate = {"mode": "colocate", "gpu_memory_utilization": 0.25, "enable_sleep_mode": True}
    study.config["launch"] = {"gpus": 1, "vllm": colocate}
    arms = {name: {"weights": {"length": 1}, "launch": launch} for name, (launch, *_) in LAYOUTS.items()}
    study.config["arms"]["arms"] = arms
    said = study.make("--dry-run", "--printshellcmds", *profile)
    told = re.findall(r"--run-dir .*?runs/(\w+)-\S+ (--nodes .*?) > ", said)
    assert dict(told) == {name: options for name, (_, options, _) in LAYOUTS.items()}
    shown = re.findall(r"train (\w+)-\S+; (GPUs: .*)", said)
    assert dict(shown) == {name: asked for name, (*_, asked) in LAYOUTS.items()}
