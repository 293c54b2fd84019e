"""Combinations in a config: keys, ranges, and what is refused before any job."""

import copy
from pathlib import Path

import pytest

from configs import CONFIG
from reward_ablation.analysis.registry import ON_REQUEST
from reward_ablation.combination.load import method_names
from reward_ablation.rewards.load import component_names
from reward_ablation.study.resolve import resolve
from reward_ablation.study.reward_import import RANGES, range_of
from reward_ablation.system.errors import StudyError

BOTH = {"correctness": 1, "format": 1}


@pytest.fixture
def study(tmp_path):
    """`study(arms, **changes)`: the study of a config with these arms."""

    def made(arms, **changes):
        config = copy.deepcopy(CONFIG) | {"arms": {"design": "list", "arms": arms}, **changes}
        return resolve(config, "config.yaml", tmp_path)

    return made


def of(combine, weights=BOTH):
    return {"weights": weights, "combine": combine}


def test_trls_own_methods_are_trls_settings(study):
    setting = {"weights": BOTH, "training": {"multi_objective_aggregation": "normalize_then_sum"}}
    arms = {"a": {"weights": BOTH}, "sum": of("weighted_sum"), "gdpo": of("gdpo")}
    keys = study({**arms, "b": setting}).keys
    assert keys["a"] == keys["sum"]
    assert keys["b"] == keys["gdpo"] != keys["a"]
    keys = study(arms, training={"max_steps": 10, **setting["training"]}).keys
    assert keys["a"] == keys["gdpo"] != keys["sum"]


def test_a_key_has_method_and_parameters(study):
    grams = {gram: of({"method": "upgrad", "gram": gram}) for gram in ("averaged", "previous")}
    loose, strict = (of({"method": "gd2po", "threshold": threshold}) for threshold in (0.2, 0.9))
    found = study({"upgrad": of("upgrad"), **grams, "loose": loose, "strict": strict})
    assert found.keys["upgrad"] == found.keys["averaged"]
    assert len(set(found.keys.values())) == 4
    codes = {run.arm: run.code for run in found.runs.values()}
    assert codes["upgrad"] == codes["previous"] != codes["loose"]


def test_a_users_method_counts_by_its_code(study, tmp_path):
    code = "def mine(scores, groups, weights, state, *, keep=1):\n    return scores, state\n"
    arms = {"a": of({"method": "own.py:mine", "keep": 2})}
    config = copy.deepcopy(CONFIG) | {"arms": {"design": "list", "arms": arms}}
    keys = set()
    for name, text in (("one", code), ("other", code.replace("return ", "return -"))):
        (tmp_path / name).mkdir()  # digests of files are worked out once
        (tmp_path / name / "own.py").write_text(text)
        keys |= {*resolve(config, "config.yaml", tmp_path / name).keys.values()}
    assert len(keys) == 2
    (tmp_path / "own.py").write_text(code)
    with pytest.raises(StudyError, match=r"arms\.arms\.a\.combine: kept: unknown parameter of the method"):
        study({"a": of({"method": "own.py:mine", "kept": 2})})


def test_named_components_take_part_where_their_weight_is_0(study):
    arms = {"late": of({"method": "schedule", "format": {0: 1, 5: 0}}, {"correctness": 1})}
    format_here = CONFIG["components"]["format"] | {"scored": "where_trained"}
    [run, *_] = study(arms, components=CONFIG["components"] | {"format": format_here}).runs.values()
    assert run.arm_spec.taking_part == ["correctness", "format"]
    assert run.arm_spec.combine.parameters == {"format": {"0": 1, "5": 0}}


@pytest.mark.parametrize(
    ("combine", "changes", "message"),
    [
        ("upgrade", {}, r"unknown method 'upgrade'.*upgrad"),
        ({"method": "dvao", "gram": "previous"}, {}, "gram: dvao uses no gradients; leave gram out"),
        ("upgrad", {"gradients": {"every": "off"}}, "the study measures none; set gradients.every: 1"),
        ("dvao", {"training": {"scale_rewards": "none"}}, "the method replaces training.scale_rewards: none"),
        ("dvao", {"training": {"num_generations": 1}}, "training.num_generations: 1 leaves nothing to compare"),
        ("nowhere.py:mine", {}, "there is no file nowhere.py"),
    ],
    ids=str,
)
def test_mistakes_are_refused_in_one_line(study, combine, changes, message):
    with pytest.raises(StudyError, match=rf"^config\.yaml: arms\.arms\.b\.combine: .*{message}") as error:
        study({"a": {"weights": BOTH}, "b": of(combine)}, **changes)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("training", "launch", "told"),
    [({}, {}, False), ({"gradient_accumulation_steps": 2}, {}, True), ({}, {"gpus": 0, "processes": 2}, True)],
)
def test_a_step_of_several_micro_batches_has_estimated_products(study, training, launch, told):
    arms = {"a": {"weights": BOTH}, "b": of({"method": "mgda", "gram": "same_step"}), "c": of("mgda")}
    training = {"max_steps": 10, "per_device_train_batch_size": 8, **training}
    warnings = study(arms, training=training, launch=launch).warnings
    start = "combine (arm b): gram: same_step estimates the products"
    assert [line.startswith(start) for line in warnings if "same_step" in line] == ([True] if told else [])


def test_a_method_that_needs_ranges_asks_for_those_that_are_not_known(study, tmp_path):
    (tmp_path / "own.py").write_text("def mine(completions, **columns):\n    return [0.0 for _ in completions]\n")
    components = {**CONFIG["components"], "mine": {"function": "own.py:mine"}}
    weights = {**BOTH, "mine": 1}
    told = r"ranges: the range of 'mine' is not known.*ranges: \{mine: \[lowest, highest\]\}"
    with pytest.raises(StudyError, match=told):
        study({"a": of("sa_mrpo", weights)}, components=components)
    known = of({"method": "sa_mrpo", "ranges": {"mine": [0, 2]}}, weights)
    [run, *_] = study({"a": known}, components=components).runs.values()
    assert run.arm_spec.combine.bounds == {"correctness": [0, 1], "format": [0, 1]}


def test_every_component_has_a_range_or_none_on_purpose(tmp_path):
    assert {*component_names()} - {*RANGES} == {"constant", "reward_model"}
    assert range_of("cosine_length", {"max_len": 5, "max_value_correct": 2}, tmp_path) == (-1, 2)
    assert range_of("final_line", {"correct": -1}, tmp_path) == (-1, 0.1)


def test_methods_are_those_of_the_documentation():
    text = (Path(__file__).parents[2] / "docs" / "combinations.md").read_text()
    assert all(f"`{name}`" in text for name in method_names())


def test_tables_of_methods_are_asked_for_where_an_arm_has_a_method_that_is_not_trls(study):
    assert study({"a": {"weights": BOTH}, "gdpo": of("gdpo")}).asked_tables == []
    asked = study({"a": {"weights": BOTH}, "saw": of("saw")}).asked_tables
    assert asked == ["combination"]
    assert set(asked) <= ON_REQUEST
