"""TRL settings that a study does not carry out are refused with the reason: in training, in arms and in sft."""

from __future__ import annotations

import pytest

from configs import refusal
from reward_ablation.config.trl_settings import GRPO, SFT

#: What a setting begins with that asks TRL for an evaluation, an upload, or a step that a study has elsewhere.
CARRIED_OUT_ELSEWHERE = ("eval_", "hub_", "push_", "do_", "log_completions", "vllm_server", "resume_", "fsdp", "tools")

BOTH = {
    "trust_remote_code": (True, "no code of a model's repository is run"),
    "eval_steps": (10, "evaluation is a stage of its own: see evaluation"),
    "enable_jit_checkpoint": (True, "training that is told to stop saves a checkpoint by itself"),
}
OF_GRPO = {
    "use_vllm": (True, "set launch.vllm.mode"),
    "fsdp_config": ({}, "layers hold parts of their weights"),
    "train_sampling_strategy": ("group_by_length", "the seed orders the prompts; shuffle_dataset: false"),
}
SFT_SECTION = {"data": {"source": "word_problems", "count": 5, "split": "train"}}


def refused(config, told):
    assert refusal(config).startswith(told)


@pytest.mark.parametrize("name", BOTH | OF_GRPO)
def test_a_setting_that_means_nothing_is_refused_with_the_reason(config, name):
    value, reason = (BOTH | OF_GRPO)[name]
    arms = config["arms"]["arms"]
    arm = {"arms": {"design": "list", "arms": arms | {"b": arms["b"] | {"training": {name: value}}}}}
    refused(config | arm, f"arms.arms.b.training: {name}: not to be set here; {reason}")
    refused(config | {"training": {name: value}}, f"training: {name}: not to be set here; {reason}")
    if name in BOTH:
        sft = {**SFT_SECTION, "training": {name: value}}
        refused(config | {"sft": sft}, f"sft.training: {name}: not to be set here; {reason}")


@pytest.mark.parametrize("settings", [GRPO, SFT], ids=["training", "sft.training"])
def test_no_setting_of_a_kind_that_has_its_place_elsewhere_is_left(settings):
    """A new setting of this kind in the next TRL fails here, once the schema is generated."""
    taken = [name for name in settings.schema()["properties"] if name.startswith(CARRIED_OUT_ELSEWHERE)]
    assert taken == (["hub_private_repo"] if settings is GRPO else [])  # of a tracker's space


def test_a_models_own_code_is_not_let_in_by_the_arguments_of_its_loading(config):
    config["training"] = {"model_init_kwargs": {"dtype": "bfloat16", "trust_remote_code": True}}
    refused(config, "training: model_init_kwargs.trust_remote_code: not to be set here; ")


@pytest.mark.parametrize("settings", [GRPO, SFT], ids=["training", "sft.training"])
def test_a_number_that_yaml_reads_as_text_is_refused_within_a_setting(settings):
    name = "lr_scheduler_kwargs"
    for value in ({"min_lr": "1E5"}, {"deep": [{"er": "-.5e-3"}]}):
        with pytest.raises(ValueError, match=rf"^{name}: .* is a text; YAML reads 1e-6 as text, 1.0e"):
            settings.check({name: value})
    settings.check({name: {"min_lr": 1e-7, "a": "e5", "b": "5e", "c": "1-7"}})


def test_variables_of_the_chat_template_may_be_any_text():
    GRPO.check({"chat_template_kwargs": {"commit": "1e5"}})
