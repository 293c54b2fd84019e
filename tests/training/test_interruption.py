"""Interrupted runs end in the bytes of an uninterrupted one."""

import json
import signal
import time
from types import SimpleNamespace

import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch
from transformers import TrainerCallback
from trl import GRPOTrainer

from reward_ablation.study.live_rollouts import FILE, read_live_rollouts
from reward_ablation.study.run_folder import WORK
from reward_ablation.system.errors import StudyError
from reward_ablation.training.around.interruption import Stopped
from reward_ablation.training.around.run import why_halving_matters

from .conftest import SPEC
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
        "components": {"length": {**SPEC["components"]["length"], "placement": "last_token"}},
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


#: Each of these stands on less of what came before than one that is tried on each commit.
LONG = {"plain", "accumulation", "a batch of rollouts for two steps", "each rollout twice", "two epochs"}
LONG |= {"half a step's rollouts at a time", "an adaptive entropy bonus", "gradients at some steps"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow, pytest.mark.long] if name in LONG else []) for name in SETTINGS],
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
        self.most, self.step = most, step

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
    ("settings", "reason"),
    [
        ({"top_entropy_quantile": 0.5}, "loss_type bnpo and top_entropy_quantile are taken"),
        ({"entropy_coef": 0.05}, "the mean of entropy_coef and use_adaptive_entropy is taken"),
        ({"aux_loss_enabled": True}, "the loss of router_aux_loss_coef is taken"),
    ],
)
def test_terms_of_the_loss_that_are_taken_over_micro_batches(settings, reason):
    none = {"loss_type": "dapo", "top_entropy_quantile": 1.0, "entropy_coef": 0.0, "use_adaptive_entropy": False}
    assert why_halving_matters(SimpleNamespace(**{**none, "aux_loss_enabled": False, **settings})) == reason


def test_what_cannot_be_halved_is_told(train, monkeypatch):
    single = {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 4}
    for changes, told in (
        ({"training": single}, "memory does not hold a micro batch of 1, which cannot be halved; lower"),
        ({"lora": LORA}, r"the training, because .*lora_dropout\.default has a dropout of 0\.1, which is drawn o"),
    ):
        with pytest.raises(StudyError, match=told):
            train("run", callbacks=[OutOfMemory(0, 1)], **changes)

    def generate(self, prompts):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(GRPOTrainer, "_generate", generate)
    with pytest.raises(StudyError, match="memory does not hold 8 completions while they are generated; lower"):
        train("run")


class Reader(TrainerCallback):
    """Reads the rollouts at the end of each step, as somebody beside the run does; `seen` is by step."""

    def __init__(self, run):
        self.run, self.seen = run, {}

    def on_step_end(self, args, state, control, **kwargs):
        self.seen[state.global_step] = list(read_live_rollouts(self.run))


def test_rollouts_can_be_read_while_the_run_trains_and_after_a_kill(train, problems, tmp_path):
    first, second = (Reader(tmp_path / "run/seed0") for _ in range(2))
    with pytest.raises(KeyboardInterrupt):
        train("run", training=SAVING, callbacks=[first, StopAt(3)])
    run = train("run", training=SAVING, callbacks=[second])
    given = {row["id"]: row for row in pq.read_table(problems).to_pylist()}
    expected = []
    for row in pq.read_table(run / "rollouts.parquet").to_pylist():
        problem = given[row["problem_id"]]
        expected.append(row | {"prompt": f"{problem['question']}\n", "gold": problem["answer"]})
    assert sorted(first.seen) + sorted(second.seen) == [1, 2, 3, 3, 4]
    for step, seen in {**first.seen, **second.seen}.items():
        assert seen == [row for row in expected if row["step"] <= step]
    assert not list(run.rglob(FILE))
