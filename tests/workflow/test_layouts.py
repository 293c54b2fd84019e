"""What the training command of each layout is told, by a dry run."""

import re

SERVER = {"mode": "server", "gpus": 2, "tensor_parallel_size": 2}
#: Launch of arms by name, and what of it their commands are told beside the spec.
LAYOUTS = {
    "plain": ({"vllm": None}, "--nodes 1"),
    "shared": ({"gpus": 4, "nodes": 2, "strategy": "zero3", "vllm": None}, "--nodes 2"),
    "colocate": ({"gpus": 2}, "--nodes 1 --vllm-memory-percent 25 --vllm-sleep 1"),  # as the study says
    "server": ({"gpus": 2, "vllm": SERVER}, "--nodes 1 --vllm-memory-percent 90 --vllm-sleep 0"),
}


def test_each_layout_is_told_what_is_not_in_its_spec(study):
    study.config["seeds"] = [0]
    colocate = {"mode": "colocate", "gpu_memory_utilization": 0.25, "enable_sleep_mode": True}
    study.config["launch"] = {"gpus": 1, "vllm": colocate}
    weights = {next(iter(study.config["components"])): 1}
    arms = {name: {"weights": weights, "launch": launch} for name, (launch, _) in LAYOUTS.items()}
    study.config["arms"] = {"design": "list", "arms": arms}
    result = study.snakemake("--dry-run", "--printshellcmds")
    said = result.stdout + result.stderr
    assert result.returncode == 0, said
    told = re.findall(r"--run-dir .*?runs/(\w+)-\S+ (--nodes .*?) > ", said)
    assert dict(told) == {name: options for name, (_, options) in LAYOUTS.items()}
