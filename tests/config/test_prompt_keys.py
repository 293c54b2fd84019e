"""Keys of prompts and of training problems that are too long."""

import copy

import pytest

from configs import CONFIG, changed
from reward_ablation.study.resolve import resolve
from reward_ablation.system.errors import StudyError

SFT = {"data": CONFIG["data"]["train"]}


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("prompt", {"date": "26 Jul 2024"}, r"prompt.*'26 Jul 2024' is no date; write it as '2024-07-26'"),
        ("prompt", {"date": "2024-02-31"}, "'2024-02-31' is no date"),
        ("data/evaluation/test/too_long", "refuse", r"evaluation.test.too_long: only data.train has this key"),
        ("sft", {"data": {**SFT["data"], "too_long": "drop"}}, "too_long: only data.train has this key"),
    ],
)
def test_wrong_values_are_told(path, value, message, tmp_path):
    with pytest.raises(StudyError, match=message):
        resolve(changed(copy.deepcopy(CONFIG), path, value), "config.yaml", tmp_path)


@pytest.mark.parametrize(
    ("path", "default", "other"),
    [
        ("prompt", {"date": "2024-07-26"}, {"date": "2025-01-02"}),
        ("data/train/too_long", "refuse", "drop"),
    ],
)
def test_the_default_leaves_a_run_s_key_as_it_is_and_another_value_does_not(path, default, other, tmp_path):
    before = resolve(copy.deepcopy(CONFIG), "config.yaml", tmp_path)
    same, new = (
        resolve(changed(copy.deepcopy(CONFIG), path, value), "config.yaml", tmp_path) for value in (default, other)
    )
    assert same.keys == before.keys
    assert not {*new.keys.values()} & {*before.keys.values()}
    assert new.train_data_spec == before.train_data_spec, "the data are prepared without regard to the model"
