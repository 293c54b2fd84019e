"""How runs are launched: allowed settings, the settings that enter a run's key, and the resources of jobs."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from configs import refusal
from reward_ablation.spec.run import RunSpec
from reward_ablation.start.rule_params import RuleParams
from reward_ablation.study.job_options import threads_of
from reward_ablation.study.resolve import resolve

COLOCATE, SERVER = {"mode": "colocate"}, {"mode": "server"}
OVER_2 = {"gpus": 2, "tensor_parallel_size": 2}
OVER_8 = {"tensor_parallel_size": 8}
VESPO = {"loss_type": "vespo", "vllm_importance_sampling_mode": "sequence_mask"}
REENTRANT = {"gradient_checkpointing_kwargs": {"use_reentrant": True}}


@pytest.mark.parametrize(
    ("launch", "message"),
    [
        ({"gpus": 2, "strategy": "fsdp"}, "strategy: fsdp: layers hold parts of their weights, of which gradients are"),
        ({"gpus": 1, "strategy": "zero2"}, "strategy: zero2 spreads a model over a run's processes, and this run has"),
        ({"gpus": 0, "vllm": COLOCATE}, "vllm: vLLM needs GPUs, and this run has none; set gpus to 1 or more, or leav"),
        ({"vllm": {**COLOCATE, "gpus": 1}}, "vllm.gpus: colocate uses the GPUs of the training; leave it out, or set"),
        ({"gpus": 8, "nodes": 2, "vllm": {**COLOCATE, **OVER_8}}, "vllm.tensor_parallel_size: 8 does not divide the 4"),
        ({"vllm": {**SERVER, "gpus": 3, **OVER_8}}, "vllm.tensor_parallel_size: 8 does not divide vllm.gpus: 3"),
        ({"gpus": 2, "nodes": 2, "vllm": SERVER}, "vllm.mode: a server is on the node of its run, and this run has no"),
        ({"vllm": {**SERVER, "enable_sleep_mode": True}}, "vllm.enable_sleep_mode: a server has GPUs of its own"),
    ],
)
def test_a_layout_that_cannot_be_is_one_line(config, launch, message):
    config["launch"] = launch
    assert refusal(config).replace("launch: ", "launch.", 1).startswith(f"launch.{message}")  # of a key, or of several


@pytest.mark.parametrize("of_arm", [False, True])
def test_another_number_of_gpus_than_a_whole_one_is_one_short_line(config, of_arm):
    whole = "; a run takes whole GPUs: write 1, or 0 for the CPU"
    for written, told in ((0.5, f"0.5 is not allowed{whole}"), (True, f"True is not allowed{whole}"), ("9" * 5000, "")):
        config["launch"] = {"gpus": 1 if of_arm else written}
        config["arms"]["arms"]["b"]["launch"] = {"gpus": written} if of_arm else {}
        line = refusal(config)
        assert ("arms.arms.b.launch.gpus: " if of_arm else "launch.gpus: ") in line
        assert line.endswith(told)
        assert len(line) < 300


@pytest.mark.parametrize(
    ("launch", "more", "message"),
    [
        ({"vllm": COLOCATE}, {"vllm_importance_sampling_correction": False}, "vllm_importance_sampling_correction: w"),
        ({"vllm": SERVER}, {"generation_kwargs": {"seed": 1}}, "generation_kwargs.seed: not to be set here:"),
        ({"vllm": COLOCATE}, VESPO, "vllm_importance_sampling_mode: sequence_mask: loss_type: vespo"),
        ({}, {"generation_kwargs": {"temperature": 0.5}}, "generation_kwargs.temperature: not to be set here: set tem"),
        ({"vllm": SERVER}, {"generation_kwargs": {"echo": True}}, "generation_kwargs.echo: not to be set here: allowe"),
        ({}, {"generation_kwargs": {"num_beams": 4}}, "generation_kwargs.num_beams: not to be set here: rollouts are"),
        ({"vllm": COLOCATE}, {"vllm_max_model_length": 256}, "vllm_max_model_length: 256 has no room for a prompt bes"),
        ({"gpus": 2}, {"lora": {}, **REENTRANT}, "gradient_checkpointing_kwargs: use_reentrant: true fails with lora"),
        ({"gpus": 1}, {"lora": {}, "sync_ref_model": True, "beta": 0.1}, "sync_ref_model: with lora the reference mod"),
        ({"gpus": 2, "strategy": "zero3"}, {"lora": {}, "beta": 0.1}, "gradient_checkpointing: with lora and launch.s"),
        ({"vllm": COLOCATE}, {"lora": {"lora_dropout": 0.1}}, "disable_dropout: with launch.vllm rollouts have no dro"),
        ({}, {"sync_ref_model": True}, "sync_ref_model: with beta: 0 there is no reference model; set beta, or"),
    ],
)
def test_settings_that_do_not_go_with_the_layout_are_one_line(config, launch, more, message):
    config["launch"] = launch
    config["lora"] = more.pop("lora", None)
    config["arms"]["arms"]["b"]["training"] = more
    assert re.match(rf"training \(arm [ab]\): {re.escape(message)}", refusal(config))


def test_an_arm_at_fault_is_named(config):
    config["launch"] = {"gpus": 2, "vllm": {**COLOCATE, "tensor_parallel_size": 2}}
    config["arms"]["arms"]["b"]["launch"] = {"gpus": 3}
    told = "arms.arms.b.launch.vllm.tensor_parallel_size: 2 does not divide gpus: 3"
    assert refusal(config).startswith(told)


@pytest.mark.parametrize(
    ("launch", "spec", "gpus"),
    [
        ({"gpus": 0, "processes": 1}, {"gpus": 0}, 0),  # one process needs no word
        ({"gpus": 0, "processes": 2}, {"gpus": 0, "processes": 2}, 0),
        ({"gpus": 2, "strategy": "zero2"}, {"gpus": 2, "strategy": "zero2"}, 2),
        (  # after an out-of-memory error nothing is trained again
            {"vllm": {**COLOCATE, "gpu_memory_utilization": 0.2, "enable_sleep_mode": True}},
            {"gpus": 1, "vllm": {"mode": "colocate", "tensor_parallel_size": 1}},
            1,
        ),
        ({"gpus": 2, "vllm": {**SERVER, **OVER_2}}, {"gpus": 2, "vllm": {**SERVER, **OVER_2}}, 4),
    ],
)
def test_the_layout_in_the_spec(config, launch, spec, gpus):
    [run, *_] = resolve({**config, "launch": launch}, "s", Path()).runs.values()
    found = json.loads(run.spec)
    assert {name: found[name] for name in ("gpus", "processes", "strategy", "vllm") if name in found} == spec
    layout = RunSpec.read(found)
    assert layout.gpus + layout.server_gpus == gpus


def test_what_a_training_job_is_asked_and_told(config):
    vllm = {**COLOCATE, "gpu_memory_utilization": 0.45, "enable_sleep_mode": True}
    config["launch"] = {"gpus": 2, "threads": 3, "resources": {"mem_mb": 1000, "runtime": 60}, "vllm": vllm}
    own = {"mem_mb": 9000, "disk_mb": 20, "qos": "long"}
    config["arms"]["arms"]["b"] |= {"launch": {"gpus": 8, "nodes": 2, "vllm": None}, "resources": own}
    server = {"vllm": {"mode": "server", "gpus": 2}, "strategy": "zero3"}
    config["arms"]["arms"]["c"] = {"weights": {"format": 1}, "launch": server}
    study = resolve(config, "study.yaml", Path())
    asks = RuleParams(study).resources_of_run
    asked, options = {}, {}
    for name, run in study.runs.items():
        wildcards = SimpleNamespace(run=name)
        asked[run.arm] = {key: ask(wildcards) if callable(ask) else ask for key, ask in asks.items()}
        asked[run.arm]["threads"] = threads_of(run.launch)
        options[run.arm] = run.options
    plain = {"gpu": 2, "nodes": 1, "mem_mb": 1000, "runtime": 60, "disk_mb": 0, "qos": None, "threads": 6}
    of_b = {"gpu": 8, "nodes": 2, **own, "runtime": 60, "threads": 12}  # threads on each node
    assert asked == {"a": plain, "b": of_b, "c": plain | {"gpu": 4}}
    assert options == {
        "a": " --vllm-memory-percent 45 --vllm-sleep 1",
        "b": "",
        "c": " --vllm-memory-percent 90 --vllm-sleep 0",
    }
