"""Keys of a study that environment variables set."""

from copy import deepcopy

import pytest

from reward_ablation.start.overrides import PREFIX, override, value_at, variables_in, with_overrides
from reward_ablation.system.errors import StudyError

CONFIG = {
    "seeds": [0, 1],
    "lora": None,
    "data": {"train": {"source": "gsm8k", "split": "train"}},
    "arms": {"arms": {"NoFormat": {"weights": {"correctness": 1}}}},
    "training": {"max_steps": 10},
}


@pytest.mark.parametrize(
    ("variable", "text", "path", "value"),
    [
        ("TRAINING__MAX_STEPS", "50", "training.max_steps", 50),
        ("DATA__TRAIN", "{source: file, path: a.csv}", "data.train", {"source": "file", "path": "a.csv"}),
        ("ARMS__ARMS__NOFORMAT__WEIGHTS__FORMAT", "0.5", "arms.arms.NoFormat.weights.format", 0.5),
        ("TRAINING__LEARNING_RATE", "1e-6", "training.learning_rate", 1e-6),  # text to YAML 1.1
        ("LAUNCH__VLLM__MODE", "colocate", "launch", {"vllm": {"mode": "colocate"}}),
    ],
)
def test_a_variable_sets_its_key(variable, text, path, value):
    config = deepcopy(CONFIG)
    override(config, {f"REWARD_ABLATION__{variable}": text})
    assert value_at(config, tuple(path.split("."))) == value


def test_a_section_is_set_before_the_keys_in_it_and_nothing_else_is():
    config = deepcopy(CONFIG)
    named = {f"{PREFIX}TRAINING__BETA": "0.1", f"{PREFIX}TRAINING": "{max_steps: 3}"}
    named |= {"REWARD_ABLATION_WORKER": "1", "NAME": "not ours"}
    settings = override(config, variables_in(named))
    assert [setting.path for setting in settings] == [("training",), ("training", "beta")]
    assert config["training"] == {"max_steps": 3, "beta": 0.1}


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("SEEDS__0", "3", "SEEDS__0: seeds is [0, 1], not a mapping; set all of it by REWARD_ABLATION__SEEDS"),
        ("SEEDS", "[0, 1", "SEEDS: '[0, 1': line 2, column 1: not YAML: did not find expected ',' or ']'"),
        ("TRAINING____BETA", "0", "TRAINING____BETA: a part of the path is empty"),
        ("ARMS__ARMS__BOTH", "{}", "ARMS__ARMS__BOTH: BOTH may be both or Both; write the key exactly as"),
    ],
)
def test_what_cannot_be_taken_is_one_line(variable, text, message):
    config = deepcopy(CONFIG)
    config["arms"]["arms"] |= {"both": {}, "Both": {}}
    with pytest.raises(StudyError) as caught:
        override(config, {f"REWARD_ABLATION__{variable}": text})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    both = {"REWARD_ABLATION__TRAINING__MAX_STEPS": "3", "REWARD_ABLATION__training__max_steps": "4"}
    with pytest.raises(StudyError, match=r"MAX_STEPS and REWARD_ABLATION__training__max_steps both set training.max_s"):
        override(deepcopy(CONFIG), variables_in(both))


@pytest.mark.parametrize(("section", "rest"), [("KEEP_MODELS", ""), ("TRAINING", "__MAX_STEPS")])
def test_a_single_underscore_is_no_silent_nothing(section, rest):
    wrong, right = (f"REWARD_ABLATION{between}{section}{rest}" for between in ("_", "__"))
    with pytest.raises(StudyError, match=f"^{wrong}: has no effect; {section.lower()} is set by {right},"):
        variables_in({wrong: "3"})


@pytest.mark.parametrize(
    ("variables", "given", "overruled"),
    [
        ({"TRAINING": "{max_steps: 5}"}, {"training": {"max_steps": 5}}, []),
        ({"TRAINING": "{max_steps: 5}"}, {"training": {"max_steps": 6}}, ["TRAINING"]),
        ({"TRAINING__MAX_STEPS": "5", "TRAINING__BETA": "1"}, {"training": {"beta": 0.1}}, ["TRAINING__BETA"]),
        ({"TRAINING__MAX_STEPS": "5"}, {"training": None}, ["TRAINING__MAX_STEPS"]),
    ],
)
def test_a_variable_is_overruled_by_another_value_at_its_own_keys_alone(variables, given, overruled):
    told = []
    named = {f"{PREFIX}{name}": text for name, text in variables.items()}
    with_overrides({"training": {"max_steps": 1}}, [], given, named, told.append)
    notes = [line for line in told if line.endswith("; --config has another value, which wins")]
    assert [line.partition(f"by {PREFIX}")[2].partition(";")[0] for line in notes] == overruled
