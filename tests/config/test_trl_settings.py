"""TRL settings that a study does not carry out are refused with the reason: in training, in arms and in sft."""

from __future__ import annotations

import pytest

from configs import refusal
from reward_ablation.config.trl_settings import GRPO, SFT

#: What a setting begins with that asks TRL for an evaluation, an upload, or a step that a study has elsewhere.
CARRIED_OUT_ELSEWHERE = ("eval_", "hub_", "push_", "do_", "log_completions", "vllm_server", "resume_", "fsdp", "tools")


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("trust_remote_code", True, "no code of a model's repository is run"),
        ("eval_steps", 10, "evaluation is a stage of its own: see evaluation"),
        ("fsdp_config", {}, "layers hold parts of their weights"),
        ("train_sampling_strategy", "group_by_length", "the seed orders the prompts; shuffle_dataset: false"),
    ],
)
def test_a_setting_that_means_nothing_is_refused_with_the_reason(config, name, value, reason):
    setting = {"training": {name: value}}
    told = f"training: {name}: not to be set here; {reason}"
    assert refusal(config | setting).startswith(told)
    if name in ("trust_remote_code", "eval_steps"):  # settings of both trainers
        sft = {"data": config["data"]["train"], **setting}
        assert refusal(config | {"sft": sft}).startswith(f"sft.{told}")
    config["arms"]["arms"]["b"] |= setting
    assert refusal(config).startswith(f"arms.arms.b.{told}")


@pytest.mark.parametrize("settings", [GRPO, SFT], ids=["training", "sft.training"])
def test_no_setting_of_a_kind_that_has_its_place_elsewhere_is_left(settings):
    """A new setting of this kind in the next TRL fails here, once the schema is generated."""
    taken = [name for name in settings.schema()["properties"] if name.startswith(CARRIED_OUT_ELSEWHERE)]
    assert taken == (["hub_private_repo"] if settings is GRPO else [])  # of a tracker's space


@pytest.mark.parametrize("settings", [GRPO, SFT], ids=["training", "sft.training"])
def test_a_number_that_yaml_reads_as_text_is_refused_within_a_setting(settings):
    name = "lr_scheduler_kwargs"
    for value in ({"min_lr": "1E5"}, {"deep": [{"er": "-.5e-3"}]}):
        with pytest.raises(ValueError, match=rf"^{name}: .* is a text; YAML reads 1e-6 as text, 1.0e"):
            settings.check({name: value})
    settings.check({name: {"min_lr": 1e-7, "a": "e5", "b": "5e", "c": "1-7"}})


def test_variables_of_the_chat_template_may_be_any_text():
    GRPO.check({"chat_template_kwargs": {"commit": "1e5"}})
