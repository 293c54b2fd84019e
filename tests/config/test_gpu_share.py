"""Runs that share a GPU: allowed shares, unchanged keys, and the resources of jobs."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from reward_ablation.config.sections.launch import Launch
from reward_ablation.study.resolve import resolve
from reward_ablation.system.errors import StudyError

COLOCATE = {"mode": "colocate"}
ALLOWED = "write a whole number of GPUs, or an equal share of one: 0.5, 0.33, 0.25, 0.2, 0.167, 0.143 or 0.125"


def refused(config):
    with pytest.raises(StudyError) as caught:
        resolve(config, "study.yaml", Path())
    text = str(caught.value)
    assert "\n" not in text
    return text.removeprefix("study.yaml: ")


@pytest.mark.parametrize(
    ("written", "runs"),
    [
        *((0.5, 2), (0.33, 3), (0.34, 3), (0.333, 3), (1 / 3, 3), (0.25, 4), (0.2, 5)),
        *((0.17, 6), (0.167, 6), (0.14, 7), (0.143, 7), (0.125, 8), (0.12, 8), (0.13, 8)),
    ],
)
def test_a_share_is_exact(written, runs):
    launch = Launch(gpus=written)
    assert (launch.share, launch.gpus, launch.process_count, launch.gpus_in_use) == (1 / runs, 1, 1, 1 / runs)


@pytest.mark.parametrize(
    "written", [0.4, 0.49, 0.51, 0.6, 0.75, 0.99, 0.3, 0.1, 0.01, 1.5, -1, -0.5, "half", None, True]
)
@pytest.mark.parametrize("of_arm", [False, True])
def test_other_numbers_are_one_line_that_says_what_is_allowed(config, written, of_arm):
    config["launch"] = {"gpus": 1 if of_arm else written}
    if of_arm and written is None:
        return  # an arm that says nothing
    if of_arm:
        config["arms"]["arms"]["b"]["launch"] = {"gpus": written}
    place = "arms.arms.b.launch.gpus" if of_arm else "launch.gpus"
    assert refused(config).removeprefix("arms.list.").startswith(f"{place}: {written!r} is not allowed; {ALLOWED}")


@pytest.mark.parametrize("written", [float("nan"), float("inf"), 10**400, "9" * 5000, [1], {"a": 1}])
def test_hostile_numbers_are_one_short_line(config, written):
    config["launch"] = {"gpus": written}
    assert len(refused(config)) < 400


@pytest.mark.parametrize(("written", "gpus"), [(2, 2), (2.0, 2), ("2", 2), (0, 0), (1, 1)])
def test_whole_numbers_are_what_they_were(written, gpus):
    launch = Launch(gpus=written)
    assert (launch.gpus, launch.share, launch.gpus_in_use) == (gpus, 1.0, gpus)


@pytest.mark.parametrize(
    ("launch", "message"),
    [
        ({"nodes": 2}, "nodes: 2 nodes take whole GPUs, and this run has 0.5 of one; set gpus to 2 or more"),
        ({"processes": 2}, "processes: with GPUs a run has one process a GPU"),
        ({"strategy": "zero2"}, "strategy: zero2 spreads a model over a run's processes, and this run has one"),
        (
            {"vllm": {"mode": "server"}},
            "vllm.mode: a server takes whole GPUs, and this run has 0.5 of one; set gpus: 1",
        ),
        ({"vllm": {**COLOCATE, "tensor_parallel_size": 2}}, "vllm.tensor_parallel_size: 2 takes whole GPUs, and this"),
    ],
)
def test_what_needs_whole_gpus_is_refused(config, launch, message):
    config["launch"] = {"gpus": 0.5, **launch}
    assert refused(config).startswith(f"launch: {message}")
    config["launch"] = {"gpus": 1}
    config["arms"]["arms"]["b"]["launch"] = {"gpus": 0.5, **launch}
    assert refused(config).startswith(f"arms.arms.b.launch.{message}")


def test_the_name_of_the_key_stays(config):
    config["launch"] = {"gpu": 1}
    assert "unknown key 'gpu'; did you mean gpus? allowed: gpus, nodes" in refused(config)
    config["launch"] = {"asked_gpus": 1}
    assert "unknown key 'asked_gpus'" in refused(config)


def study_of(config, of_study=None, **of_b):
    config["launch"] = {} if of_study is None else {"gpus": of_study}
    config["arms"]["arms"]["b"].pop("launch", None)
    if of_b:
        config["arms"]["arms"]["b"]["launch"] = of_b
    return resolve(config, "s", Path())


def test_finished_runs_stay_finished_when_they_come_to_share_a_gpu(config):
    """Keys, specs, and what decides evaluations and scores."""
    whole = study_of(config, 1)
    for share in (study_of(config, 0.5), study_of(config, 0.125), study_of(config, 1, gpus=0.25)):
        assert {name: run.spec for name, run in share.runs.items()} == {n: run.spec for n, run in whole.runs.items()}
        assert (share.keys, share.folders, share.answers_folder) == (whole.keys, whole.folders, whole.answers_folder)
        assert share.evaluation_spec(None) == whole.evaluation_spec(None)
        assert share.training_settings == whole.training_settings
        assert share.digest == whole.digest
    assert '"gpus":1' in next(iter(whole.runs.values())).spec


def asked_of(study):
    """Resources and options of a training job of each arm."""
    found = {}
    for name, run in study.runs.items():
        wildcards = SimpleNamespace(run=name)
        resources = {key: ask(wildcards) if callable(ask) else ask for key, ask in study.resources.of_run.items()}
        found[run.arm] = resources, study.options_of_run(wildcards, None)
    return found


def test_a_study_of_whole_gpus_asks_for_what_it_did(config):
    study = study_of(config)
    assert asked_of(study) == {arm: ({"gpu": 1, "nodes": 1}, "") for arm in ("a", "b")}
    assert study.resources.of_evaluation == {"gpu": 1}
    assert study.resources.gpus_in_message == "{resources.gpu}"


def test_parts_of_gpus_are_counted_where_some_runs_share_one(config):
    half = {"gpu": 1, "gpu_parts": 420, "gpu_share": "0.5"}
    study = study_of(config, 0.5, gpus=2)
    assert asked_of(study) == {
        "a": ({**half, "nodes": 1}, " --gpu-share 0.5"),
        "b": ({"gpu": 2, "gpu_parts": 1680, "gpu_share": "2", "nodes": 1}, ""),
    }
    assert study.resources.of_evaluation == half
    assert study.resources.of_gpus(1) == {"gpu": 1, "gpu_parts": 840, "gpu_share": "1"}
    assert study.resources.of_gpus(0) == {"gpu": 0, "gpu_parts": 0, "gpu_share": "0"}
    assert study.resources.gpus_in_message == "{resources.gpu_share}"
    of_arm = study_of(config, 1, gpus=0.33)
    assert of_arm.resources.of_evaluation == {"gpu": 1, "gpu_parts": 840, "gpu_share": "1"}
    assert asked_of(of_arm)["b"] == (
        {"gpu": 1, "gpu_parts": 280, "gpu_share": "0.333", "nodes": 1},
        " --gpu-share 0.333333",
    )


@pytest.mark.parametrize(
    ("gpus", "vllm", "percent"),
    [
        (1, {}, 30),
        (0.5, {}, 15),
        (0.125, {}, 4),
        (0.25, {"gpu_memory_utilization": 0.8}, 20),
        (0.125, {"gpu_memory_utilization": 0.01}, 1),  # vLLM needs some
    ],
)
def test_a_colocated_vllm_takes_its_part_of_the_runs_share(config, gpus, vllm, percent):
    config["launch"] = {"gpus": gpus, "vllm": {**COLOCATE, **vllm}}
    study = resolve(config, "s", Path())
    wildcards = SimpleNamespace(run=next(iter(study.runs)))
    share = f" --gpu-share {gpus}" if gpus < 1 else ""
    assert study.options_of_run(wildcards, None) == f"{share} --vllm-memory-percent {percent} --vllm-sleep 0"


def test_parts_are_the_workflows_own(config):
    config["launch"] = {"gpus": 0.5, "resources": {"gpu_parts": 1}}
    assert refused(config).startswith("launch.resources: gpu_parts: not to be set here; set launch.gpus")


def test_the_schema_for_editors_knows_shares():
    schema = json.loads((Path(__file__).parents[2] / "workflow/schemas/config.schema.json").read_text())
    share = {"maximum": 0.5, "minimum": 0.12, "type": "number"}
    assert share in schema["$defs"]["Launch"]["properties"]["gpus"]["anyOf"]
    assert share in schema["$defs"]["LaunchChanges"]["properties"]["gpus"]["anyOf"]
