"""What TRL derives from several settings is checked under each name by which it can be set."""

import copy
from pathlib import Path
from types import SimpleNamespace

import pytest

from configs import CONFIG, refusal
from reward_ablation.config.trl_settings import BatchSizes
from reward_ablation.study.resolve import resolve
from reward_ablation.system.errors import StudyError
from reward_ablation.training.around.launch.worker import WORKER, refuse_other_launchers

SAME_STEP = {"combine": {"method": "pcgrad", "gram": "same_step"}}
REENTRANT = {"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": True}}
LAST = {name: {**each, "placement": "last_token"} for name, each in CONFIG["components"].items()}
VLLM = {"gpus": 1, "vllm": {"mode": "colocate"}}

SIZES = [
    {},
    {"gradient_accumulation_steps": 4, "steps_per_generation": 1},
    {"per_device_train_batch_size": 4, "generation_batch_size": 64, "num_iterations": 3},
]


@pytest.mark.parametrize("training", SIZES, ids=str)
def test_sizes_are_those_of_trls_own_config(training, monkeypatch, tmp_path):
    from trl import GRPOConfig

    monkeypatch.setattr(GRPOConfig, "world_size", 2)
    config = GRPOConfig(output_dir=str(tmp_path), use_cpu=True, bf16=False, **training)
    for settings in (training, vars(config)):  # as written, and completed by TRL
        sizes = BatchSizes.of(settings, 2)
        assert (sizes.generated, sizes.completions) == (config.steps_per_generation, config.generation_batch_size)
        assert (sizes.micro_batch, sizes.accumulation, sizes.iterations) == (
            config.per_device_train_batch_size,
            config.gradient_accumulation_steps,
            config.num_iterations,
        )


def message_of(training=None, arm=None, **sections):
    """The error of a config with these settings of the study, of arm b, and sections."""
    config = copy.deepcopy(CONFIG) | sections
    config["training"] |= training or {}
    config["arms"]["arms"]["b"] |= arm or {}
    return refusal(config)


@pytest.mark.parametrize(
    "training", [{"gradient_accumulation_steps": 4, "generation_batch_size": 8}, {"num_iterations": 2}]
)
def test_the_gram_matrix_of_a_step_needs_one_generation_a_step(training):
    name = [*training][-1]
    settings = {"per_device_train_batch_size": 8, **training}
    message = message_of(arm={**SAME_STEP, "training": settings})
    assert message.startswith("arms.arms.b.combine: gram: same_step uses the gradients of one step's completions")
    assert f"leave training.{name} out" in message


@pytest.mark.parametrize(
    ("reason", "sections"),
    [
        ("steps_per_generation", {"training": {"steps_per_generation": 2}}),
        ("launch.vllm", {"launch": VLLM}),
        ("a placement other than all_tokens", {"components": LAST}),
        ("beta", {"training": {"beta": 0.1}, "gradients": {"every": "off", "whole": [5]}}),
    ],
)
def test_reentrant_checkpointing_goes_with_one_backward_pass(reason, sections):
    settings = {"per_device_train_batch_size": 8, **REENTRANT, **sections.pop("training", {})}
    message = message_of(settings, **sections)
    assert f"use_reentrant: true allows one backward pass, and measuring with {reason} takes more" in message
    assert message.endswith("; set it to false, or gradients.every: off, without whole")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gradient_checkpointing_kwargs": '{"use_reentrant": true}'}, "gradient_checkpointing_kwargs: '{"),
        ({"model_init_kwargs": {"trust_remote_code": True}}, "model_init_kwargs.trust_remote_code: not to be set here"),
        ({"model_init_kwargs": {"attn_implementation": "a/b"}}, "a/b: no code of a repository is run"),
    ],
)
def test_settings_inside_settings_are_looked_at(settings, message):
    assert message in message_of(settings)


def test_what_changes_nothing_else_is_let_in(config):
    config["training"] |= {
        "generation_kwargs": {"min_new_tokens": 2, "suppress_tokens": [5]},
        "model_init_kwargs": {"dtype": "bfloat16", "attn_implementation": "sdpa"},
        "gradient_checkpointing": False,
        "gradient_checkpointing_kwargs": {"use_reentrant": True},
        "beta": 0.1,
    }
    resolve(config, "s", Path.cwd())


def test_accelerates_variables_are_refused_where_no_launcher_of_ours_has_set_them(monkeypatch):
    monkeypatch.setenv("ACCELERATE_LOG_LEVEL", "info")
    refuse_other_launchers()
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    with pytest.raises(StudyError, match="launch: ACCELERATE_MIXED_PRECISION is set, and accelerate would train by it"):
        refuse_other_launchers()
    monkeypatch.setenv(WORKER, "1")
    refuse_other_launchers()


def test_completions_of_several_turns_are_refused_by_the_trainer():
    from reward_ablation.training.core.trainer import AblationTrainer

    given = {"components": {}, "weights": {}, "date": "", "placements": {}, "sink": None, "measure_every": 1}
    with pytest.raises(StudyError, match=r"^tools: completions of several turns are neither logged nor measured"):
        AblationTrainer(tools=[print], args=SimpleNamespace(), **given)
