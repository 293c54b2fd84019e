"""Trackers: what a tracker gets from a run, and that tracking is not part of a key."""

import json
import shlex
from pathlib import Path

import pytest

from reward_ablation.config.sections.model import DemoModel, HubModel, LocalModel
from reward_ablation.study.job_options import run_title
from reward_ablation.study.resolve import resolve


@pytest.mark.parametrize(
    ("model", "training", "title"),
    [
        (HubModel(id="Qwen/Qwen2.5", revision="0" * 40), {"max_steps": 128}, "Qwen2.5-K8-128steps-mixed-seed0"),
        (LocalModel(path="models/sft/"), {"num_generations": 2}, "sft-K2-3epochs-mixed-seed0"),
        (DemoModel(), {"max_steps": -1, "num_train_epochs": 0.5}, "demo-K8-0.5epochs-mixed-seed0"),
    ],
)
def test_a_run_is_named_after_model_group_size_and_steps(model, training, title):
    assert run_title(model, training, "mixed", 0) == title


def options(study):
    """What each training command is told, by arm, of seed 0."""
    told = {}
    for run in study.runs.values():
        words = shlex.split(run.options)
        if run.seed == 0:
            told[run.arm] = json.loads(words[1]) if words else {}
    return told


def test_trackers_are_no_part_of_a_key(config):
    before = resolve(config, "s", Path())
    config["training"] |= {"report_to": "wandb", "project": "mine", "trackio_space_id": "a/b"}
    config["arms"]["arms"]["b"]["training"] = {"report_to": "none", "run_name": "it's b"}
    after = resolve(config, "s", Path())
    assert before.keys == after.keys
    assert options(before) == {"a": {}, "b": {}}
    of_a = {"report_to": "wandb", "project": "mine", "trackio_space_id": "a/b", "group": "a"}
    assert options(after) == {"a": of_a | {"run_name": "demo-K8-10steps-a-seed0"}, "b": {}}
    config["arms"]["arms"]["b"]["training"] = {"report_to": ["wandb"], "run_name": "it's {mine}"}
    del config["training"]["project"], config["training"]["trackio_space_id"]
    named = resolve(config, "s", Path())
    own = {"run_name": "it's {mine}-b-seed0", "project": "study", "group": "b"}  # each run has its own name
    assert options(named)["b"] == {"report_to": ["wandb"], **own}
    assert named.keys == before.keys
