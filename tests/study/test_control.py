"""A control, and components that only some arms score, leave the keys and the code of other arms unchanged."""

import json
from pathlib import Path

import pytest

from configs import changed
from reward_ablation.study.resolve import resolve
from reward_ablation.system.errors import StudyError

RANDOM = {"function": "random", "scored": "where_trained"}


def resolved(config):
    return resolve(config, "study.yaml", Path())


@pytest.fixture
def with_control(config):
    config["components"]["random"] = dict(RANDOM)
    config["arms"]["arms"]["noise"] = {"weights": {"random": 1}}
    config["control"] = "noise"
    return config


def test_a_control_with_its_component_moves_no_key_and_no_code_of_other_arms(config):
    before = resolved(config)
    config["components"]["random"] = dict(RANDOM)
    config["arms"]["arms"]["noise"] = {"weights": {"random": 1}}
    after = resolved(config | {"control": "noise"})
    assert {name: after.runs[name] for name in before.runs} == before.runs
    assert len(after.runs) == len(before.runs) + 2
    assert after.answers_folder == before.answers_folder
    [spec, _] = [json.loads(run.spec) for run in after.runs.values() if run.arm == "noise"]
    assert set(spec["components"]) == set(spec["weights"]) == {"correctness", "format", "random"}


def test_a_component_that_is_scored_everywhere_is_in_every_arm(with_control):
    before = resolved(with_control)
    after = resolved(changed(with_control, "components/random/scored", "everywhere"))
    assert after.keys["noise"] == before.keys["noise"]  # which scores it either way
    assert after.keys["a"] != before.keys["a"]
    assert {run.code for run in after.runs.values()} == {run.code for run in before.runs.values() if run.arm == "noise"}


def test_the_arms_of_a_design_stay_beside_others(config):
    """A simplex is over what is scored everywhere."""
    design = {"design": "simplex", "steps": 2}
    before = resolved(config | {"arms": design})
    config["components"]["random"] = dict(RANDOM)
    noise = {"weights": {"random": 1}, "training": {"max_steps": 11}}
    after = resolved(config | {"arms": {**design, "extra": {"noise": noise}}})
    assert [*before.arms, "noise"] == list(after.arms)
    assert {arm: after.keys[arm] for arm in before.arms} == before.keys
    assert after.config.training_of(after.arms["noise"])["max_steps"] == 11


def test_a_control_that_is_none_is_warned_of(with_control):
    assert resolved(with_control).warnings == []
    settings = {"max_steps": 5, "report_to": "tensorboard"}
    with_control["arms"]["arms"]["noise"] = {"weights": {"random": 1, "format": 0.1}, "training": settings}
    assert resolved(with_control).warnings == [
        "control: arm noise is trained on format (answer_format); a control is trained on components with function: "
        "random alone",
        "control: arm noise and the baseline a differ in training.max_steps; a control needs the baseline's settings, "
        "and as many steps",
    ]


def test_placements_and_gradients_are_checked_where_a_component_is_scored(with_control):
    """A setting of one arm does not go with a placement that this arm does not have."""
    with_control["components"]["random"]["placement"] = "last_token"
    setting = {"training": {"importance_sampling_level": "sequence"}}
    with_control["arms"]["arms"]["b"] |= setting
    resolved(with_control)
    with_control["arms"]["arms"]["noise"] |= setting
    with pytest.raises(StudyError, match=r"training \(arm noise\): importance_sampling_level"):
        resolved(with_control)
