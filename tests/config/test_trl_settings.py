"""TRL settings that a study does not carry out are refused with the reason: in training, in arms and in sft."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reward_ablation.config.trl_settings import GRPO, SFT
from reward_ablation.study.resolve import resolve
from reward_ablation.system.errors import StudyError

#: What a setting begins with that asks TRL for an evaluation, an upload, or a step that a study has elsewhere.
CARRIED_OUT_ELSEWHERE = ("eval_", "hub_", "push_", "do_", "log_completions", "vllm_server", "resume_", "fsdp", "tools")

BOTH = {
    "trust_remote_code": (True, "no code of a model's repository is run"),
    "eval_steps": (10, "evaluation is a stage of its own: see evaluation"),
    "per_device_eval_batch_size": (8, "evaluation is a stage of its own: see evaluation"),
    "load_best_model_at_end": (True, "evaluation is a stage of its own: see evaluation"),
    "metric_for_best_model": ("reward", "evaluation is a stage of its own: see evaluation"),
    "do_predict": (True, "evaluation is a stage of its own: see evaluation"),
    "do_train": (False, "each run is trained"),
    "hub_model_id": ("me/model", "upload the model's folder yourself"),
    "hub_strategy": ("end", "upload the model's folder yourself"),
    "logging_first_step": (True, "every step is logged"),
    "enable_jit_checkpoint": (True, "training that is told to stop saves a checkpoint by itself"),
    "save_on_each_node": (True, "all nodes share the results folder"),
}
OF_GRPO = {
    "max_tool_calling_iterations": (3, "completions call no tools"),
    "num_generations_eval": (4, "evaluation is a stage of its own: see evaluation"),
    "log_unique_prompts": (True, "rollouts.parquet has every completion"),
    "label_smoothing_factor": (0.1, "GRPO's loss has no labels"),
    "train_sampling_strategy": ("group_by_length", "the seed orders the prompts; shuffle_dataset: false"),
    "average_tokens_across_devices": (False, "loss_type says over what the loss is averaged"),
}
SFT_SECTION = {"data": {"source": "word_problems", "count": 5, "split": "train"}}


def refused(config, told):
    with pytest.raises(StudyError) as error:
        resolve(config, "study.yaml", Path())
    assert str(error.value).startswith(f"study.yaml: {told}")


@pytest.mark.parametrize(("name", "value", "reason"), [(name, *rest) for name, rest in (BOTH | OF_GRPO).items()])
def test_a_setting_that_means_nothing_is_refused_with_the_reason(config, name, value, reason):
    arm = config["arms"]["arms"]["b"]
    arm["training"] = {name: value}
    refused(config, f"arms.arms.b.training: {name}: not to be set here; {reason}")
    del arm["training"]
    config["training"] = {name: value}
    refused(config, f"training: {name}: not to be set here; {reason}")


@pytest.mark.parametrize(("name", "value", "reason"), [(name, *rest) for name, rest in BOTH.items()])
def test_so_it_is_in_the_supervised_start(config, name, value, reason):
    config["sft"] = {**SFT_SECTION, "training": {name: value}}
    refused(config, f"sft.training: {name}: not to be set here; {reason}")


@pytest.mark.parametrize("settings", [GRPO, SFT], ids=["training", "sft.training"])
def test_no_setting_of_a_kind_that_has_its_place_elsewhere_is_left(settings):
    """A new setting of this kind in the next TRL fails here, once the schema is generated."""
    taken = [name for name in settings.schema()["properties"] if name.startswith(CARRIED_OUT_ELSEWHERE)]
    assert taken == (["hub_private_repo"] if settings is GRPO else [])  # of a tracker's space


@pytest.mark.parametrize("name", ["trust_remote_code", "revision", "code_revision"])
def test_a_models_own_code_is_not_let_in_by_the_arguments_of_its_loading(config, name):
    config["training"] = {"model_init_kwargs": {"dtype": "bfloat16", name: True}}
    refused(config, f"training: model_init_kwargs.{name}: not to be set here; ")
    config["training"] = {"model_init_kwargs": {"dtype": "bfloat16"}}
    resolve(config, "study.yaml", Path())


@pytest.mark.parametrize("settings", [GRPO, SFT], ids=["training", "sft.training"])
@pytest.mark.parametrize("text", ["1e-7", "1E5", "-2.5e+3", ".5e-3"])
def test_a_number_that_yaml_reads_as_text_is_refused_within_a_setting(settings, text):
    name = "lr_scheduler_kwargs"
    for value in ({"min_lr": text}, {"deep": [{"er": text}]}):
        with pytest.raises(
            ValueError, match=rf"^{name}: .*{re.escape(text)}.* is a text; YAML reads 1e-6 as text, 1.0e"
        ):
            settings.check({name: value})
    settings.check({name: {"min_lr": 1e-7, "a": "e5", "b": "5e", "c": "1-7", "d": "e", "f": ""}})


def test_variables_of_the_chat_template_may_be_any_text():
    GRPO.check({"chat_template_kwargs": {"commit": "1e5"}})
