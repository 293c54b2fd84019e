"""Interrupted runs end in the bytes of an uninterrupted one."""

import json
import signal
import time
from types import SimpleNamespace

import pandas as pd
import pytest
import torch
from transformers import TrainerCallback

from reward_ablation.study.run_folder import WORK
from reward_ablation.system.errors import StudyError
from reward_ablation.training.around import saving_trainer
from reward_ablation.training.around.checkpoints import seal
from reward_ablation.training.around.interruption import Stopped
from reward_ablation.training.around.run import why_halving_matters

from .interrupting import SAVING, SignalIn, StopAt, attempts, digests

LORA = {"r": 4, "lora_alpha": 8, "lora_dropout": 0.1, "target_modules": "all-linear"}
ACCUMULATION = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}
#: Half of the problems in each micro-batch.
HALF_OF_ALL = {"per_device_train_batch_size": 32, "num_generations": 2}
#: Settings under which a step stands on what came before it: rollouts of earlier steps, random states, other models.
SETTINGS = {
    "plain": {},
    "accumulation": {"training": ACCUMULATION},
    "a batch of rollouts for two steps": {"training": {"steps_per_generation": 2}},
    "each rollout twice": {"training": {"num_iterations": 2, "beta": 0.1}},
    "each rollout three times, in micro-batches, and placed advantages": {
        "components": {
            "length": {
                "function": "token_length",
                "parameters": {"target": 20, "width": 20},
                "placement": "last_token",
            }
        },
        "training": {**ACCUMULATION, "num_iterations": 3},
    },
    "half a step's rollouts at a time": {"training": {**ACCUMULATION, "steps_per_generation": 1}},
    "two epochs": {"training": {"max_steps": -1, "num_train_epochs": 2, **HALF_OF_ALL}},
    "two epochs of rollouts for two steps": {"training": {**HALF_OF_ALL, "steps_per_generation": 2}},
    "an epoch that ends within a step": {
        "training": {**HALF_OF_ALL, "gradient_accumulation_steps": 3, "steps_per_generation": 1}
    },
    "a reference model that follows": {
        "training": {"beta": 0.1, "sync_ref_model": True, "ref_model_sync_steps": 1, "ref_model_mixup_alpha": 0.5}
    },
    "an adaptive entropy bonus": {"training": {"use_adaptive_entropy": True, "entropy_target": 2.0}},
    "LoRA with dropout, and kept models": {"lora": LORA, "keep_models": 2},
    "gradients at some steps": {"gradients": {"every": 3, "whole": [2]}, "training": {"num_iterations": 2}},
}


#: Each of these stands on more of what came before than those that are in the long form alone.
ON_EACH_COMMIT = {
    "each rollout three times, in micro-batches, and placed advantages",
    "two epochs of rollouts for two steps",
    "an epoch that ends within a step",
    "a reference model that follows",
    "LoRA with dropout, and kept models",
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in ON_EACH_COMMIT else [pytest.mark.slow, pytest.mark.long])
        for name in SETTINGS
    ],
)
def test_a_run_that_is_stopped_in_each_step_ends_as_one_that_is_not(train, trained, name):
    changes = SETTINGS[name]
    whole = trained(**changes)
    for step in (1, 2, 3):
        with pytest.raises(Stopped, match=f"stopped at step {step} of 4: SIGTERM; the same command goes on"):
            train("stopped", callbacks=[SignalIn(step)], **changes)
    stopped = train("stopped", **changes)
    assert attempts(stopped) == [(0, 1, "SIGTERM"), (1, 2, "SIGTERM"), (2, 3, "SIGTERM"), (3, 4, "done")]
    assert digests(stopped) == digests(whole)
    assert not (stopped / WORK).exists()


@pytest.mark.parametrize("step", [2, 4])
def test_a_run_that_is_killed_goes_on_from_its_last_checkpoint_and_each_attempt_has_its_times(train, trained, step):
    keeping = {"training": SAVING, "keep_models": 1}
    whole = trained(**keeping)
    with pytest.raises(KeyboardInterrupt):
        train("killed", **keeping, callbacks=[StopAt(step)])
    killed = train("killed", **keeping)
    assert attempts(killed) == [(0, -1, "killed"), (0 if step < 3 else 2, 4, "done")]
    assert digests(killed) == digests(whole)
    record = json.loads((killed / "run.json").read_text())
    assert all(0 < attempt["start_seconds"] <= attempt["wall_seconds"] for attempt in record["attempts"])
    assert record["wall_seconds"] == pytest.approx(sum(attempt["wall_seconds"] for attempt in record["attempts"]))


def test_a_stop_at_the_end_of_an_epoch_saves_once(train, monkeypatch):
    sealed = []
    monkeypatch.setattr(saving_trainer, "seal", lambda folder, *rest: (sealed.append(folder.name), seal(folder, *rest)))
    training = {**HALF_OF_ALL, "save_strategy": "epoch"}
    with pytest.raises(Stopped, match="step 2 of 4"):
        train("run", training=training, callbacks=[SignalIn(2)])
    assert sealed == ["checkpoint-2"]
    assert attempts(train("run", training=training)) == [(0, 2, "SIGTERM"), (2, 4, "done")]


def test_signals_have_their_meaning_back_after_a_run_and_one_at_the_last_step_lets_it_end(train):
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(Stopped, match="SIGINT"):
        train("run", callbacks=[SignalIn(1, signal.SIGINT)])
    assert signal.getsignal(signal.SIGINT) is before
    assert attempts(train("run", callbacks=[SignalIn(4)])) == [(0, 1, "SIGINT"), (1, 4, "done")]


def test_a_run_stops_before_its_slurm_job_does(train, trained, monkeypatch):
    whole = trained()
    monkeypatch.setenv("SLURM_JOB_END_TIME", str(int(time.time())))
    with pytest.raises(Stopped, match="step 1 of 4: time limit"):  # one step at least in each job, however short
        train("run")
    monkeypatch.setenv("SLURM_JOB_END_TIME", str(int(time.time()) + 3600))
    run = train("run")
    assert attempts(run) == [(0, 1, "time limit"), (1, 4, "done")]
    assert digests(run) == digests(whole)


class OutOfMemory(TrainerCallback):
    """As torch does it, where a micro-batch has more than so many completions."""

    def __init__(self, most: int, step: int):
        self.most = most
        self.step = step

    def on_pre_optimizer_step(self, args, state, control, **kwargs):
        if args.per_device_train_batch_size > self.most and state.global_step + 1 == self.step:
            raise torch.OutOfMemoryError("CUDA out of memory.")


def test_out_of_memory_halves_the_micro_batch_and_nothing_else(train):
    settings = {**SAVING, "gradient_accumulation_steps": 2, "num_iterations": 2}
    whole = train("whole", training=settings)
    for micro_batch in (4, 2):
        with pytest.raises(Stopped, match=f"ran out of memory; the next attempt takes micro batches of {micro_batch}"):
            train("small", training=settings, callbacks=[OutOfMemory(2, 4 if micro_batch == 4 else 3)])
    small = train("small", training=settings, callbacks=[OutOfMemory(2, 3)])
    record = json.loads((small / "run.json").read_text())
    assert [attempt["per_device_train_batch_size"] for attempt in record["attempts"]] == [8, 4, 2]
    assert [attempt["gradient_accumulation_steps"] for attempt in record["attempts"]] == [2, 4, 8]
    assert attempts(small) == [(0, 3, "out of memory"), (2, 2, "out of memory"), (2, 4, "done")]
    columns = ["step", "problem_id", "rollout", "completion", "advantage"]
    expected, found = (pd.read_parquet(run / "rollouts.parquet")[columns] for run in (whole, small))
    pd.testing.assert_frame_equal(expected, found, atol=1e-5)
    expected, found = (pd.read_parquet(run / "metrics.parquet") for run in (whole, small))
    assert found.grad_norm.to_numpy() == pytest.approx(expected.grad_norm.to_numpy(), rel=1e-3)
    assert found.learning_rate.tolist() == expected.learning_rate.tolist()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"training": {"loss_type": "bnpo"}}, "half of it would change the training, because loss_type bnpo and top_"),
        (
            {"lora": LORA},
            r"change the training, because .*lora_dropout\.default has a dropout of 0\.1, which is drawn o",
        ),
        (
            {"training": {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 4}},
            "memory does not hold a micro batch of 1, which cannot be halved; lower",
        ),
    ],
)
def test_a_micro_batch_that_cannot_be_halved_or_not_without_another_training_is_told(train, changes, told):
    with pytest.raises(StudyError, match=told):
        train("run", callbacks=[OutOfMemory(0, 1)], **changes)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"top_entropy_quantile": 0.5}, "loss_type bnpo and top_entropy_quantile are taken"),
        ({"entropy_coef": 0.05}, "the mean of entropy_coef and use_adaptive_entropy is taken"),
        ({"use_adaptive_entropy": True}, "the mean of entropy_coef and use_adaptive_entropy is taken"),
        ({"aux_loss_enabled": True}, "the loss of router_aux_loss_coef is taken"),
    ],
)
def test_terms_of_the_loss_that_are_taken_over_micro_batches(settings, reason):
    none = {"loss_type": "dapo", "top_entropy_quantile": 1.0, "entropy_coef": 0.0, "use_adaptive_entropy": False}
    assert why_halving_matters(SimpleNamespace(**{**none, "aux_loss_enabled": False, **settings})) == reason


def test_a_generation_that_does_not_fit_is_told(train, monkeypatch):
    from trl import GRPOTrainer

    def generate(self, prompts):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(GRPOTrainer, "_generate", generate)
    with pytest.raises(StudyError, match="memory does not hold 8 completions while they are generated; lower"):
        train("run")
