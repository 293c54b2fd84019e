"""The supervised start in a config: what is refused, and what decides its key and the keys of runs."""

from pathlib import Path

import pytest

from reward_ablation.study.resolve import resolve

SFT = {"data": {"source": "word_problems", "count": 5, "split": "train"}}


def study_of(config, **sft):
    return resolve(config | {"sft": SFT | sft}, "study.yaml", Path())


def test_the_start_stands_beside_the_fetched_model_and_in_each_run(config):
    without, study = resolve(config, "study.yaml", Path()), study_of(config)
    assert study.fetched_file == without.model_file == without.fetched_file
    assert study.model_file != study.fetched_file
    assert set(study.keys.values()).isdisjoint(without.keys.values())
    assert study.problems_file == without.problems_file
    assert study.answers_folder == without.answers_folder


@pytest.mark.parametrize(
    "sft", [{"completion": "{answer}"}, {"training": {"max_steps": 3}}, {"data": {**SFT["data"], "count": 6}}]
)
def test_what_decides_the_start_decides_the_runs(config, sft):
    before, after = study_of(config), study_of(config, **sft)
    assert before.model_file != after.model_file
    assert set(before.keys.values()).isdisjoint(after.keys.values())
    assert (before.demonstrations_file != after.demonstrations_file) == ("data" in sft)


def test_prompts_decide_the_start_and_spellings_of_it_do_not(config):
    start = study_of(config).model_file
    assert study_of(config | {"prompt": {"template": "{question}!"}}).model_file != start
    kwargs = config | {"training": {**config["training"], "chat_template_kwargs": {"enable_thinking": False}}}
    assert study_of(kwargs).model_file != start
    assert study_of(config, completion=["{solution}"], training={}).model_file == start
