"""A run whose numbers stop being finite ends with one line, and records that it diverged."""

from __future__ import annotations

import json
import math
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from transformers import TrainerCallback

from reward_ablation.sampling.draws import WatchLogits
from reward_ablation.study.run_folder import DIVERGED, RECORD
from reward_ablation.system.errors import NotFinite, StudyError
from reward_ablation.training.around.divergence import StopAtDivergence
from reward_ablation.training.core.advantages import beyond_range


def test_a_diverged_run_ends_with_one_line_and_a_record_until_it_is_trained_after_all(train, tmp_path):
    high = {"learning_rate": 1e20, "max_steps": 4, "lr_scheduler_type": "constant"}
    told = r"^training: diverged at step 2: the logits that tokens are sampled from are not finite; "
    with pytest.raises(StudyError, match=rf"{told}.*last finite gradient norm: .*, at step 1; lower learning_rate"):
        train("run", training=high)
    run = tmp_path / "run" / "seed0"
    assert not (run / RECORD).exists()
    record = json.loads((run / DIVERGED).read_text())
    assert (record["step"], record["seed"], record["spec"]["training"]["learning_rate"]) == (2, 0, 1e20)
    train("run", training={"max_steps": 1})
    assert (run / RECORD).exists()
    assert not (run / DIVERGED).exists()


class Spoil(TrainerCallback):
    """Puts a NaN into a weight of the model after a step, as an optimiser that divides by zero does."""

    def on_optimizer_step(self, args, state, control, model=None, **kwargs):
        if state.global_step == 1:
            torch.nn.init.constant_(model.model.layers[0].mlp.up_proj.weight, math.nan)


def test_weights_that_are_not_finite_stop_the_run_at_their_step_and_the_line_names_the_first(train, tmp_path):
    told = r"diverged at step 2: the weights are not finite; first tensor .*: model\.lay"
    with pytest.raises(StudyError, match=told):
        train("spoilt", callbacks=[Spoil()], training={"max_steps": 3})
    assert json.loads((tmp_path / "spoilt" / "seed0" / DIVERGED).read_text())["step"] == 2


@pytest.mark.parametrize(
    ("logs", "fp16", "stops"),
    [
        ({"loss": math.nan, "grad_norm": 1.0}, False, "the loss is nan"),
        ({"loss": 0.1, "grad_norm": math.inf}, False, "the gradient norm is inf"),
        ({"loss": 0.1, "grad_norm": math.inf}, True, None),  # the scaler skips such a step
        ({"train_loss": 0.1}, False, None),
    ],
)
def test_what_the_log_of_a_step_says(logs, fp16, stops):
    with pytest.raises(NotFinite, match=stops) if stops else nullcontext() as error:
        StopAtDivergence().on_log(SimpleNamespace(fp16=fp16), SimpleNamespace(global_step=3), None, logs=logs)
    assert error is None or error.value.step == 3


@pytest.mark.parametrize(
    ("row", "defined"),
    [
        ([0.0, 1.0, -math.inf], True),  # a token that is ruled out
        ([0.0, math.nan, 1.0], False),
        ([-math.inf, -math.inf, -math.inf], False),
    ],
)
def test_logits_that_give_no_distribution(row, defined):
    watch = WatchLogits()
    for rows in ([[0.0, 1.0, 2.0], row], [[0.0, 1.0, 2.0]] * 2):
        assert watch(None, scores := torch.tensor(rows)) is scores
    with nullcontext() if defined else pytest.raises(NotFinite, match="logits"):
        watch.refuse_undefined()


@pytest.mark.parametrize(
    ("scores", "found"),
    [
        ([0.0, 1.0, 1e20, 0.0], (2, 0)),  # the deviation overflows
        ([3e38, 3e38, 0.0, 0.0], (0, 0)),  # the mean does
        ([1e20, 1e20, 0.0, 0.0], None),  # neither does: no group differs in itself
        ([math.nan, 3e38, math.nan, 3e38], None),  # one score in each group
    ],
)
def test_scores_whose_mean_or_deviation_overflows(scores, found):
    assert beyond_range(torch.tensor(scores)[:, None], size=2) == found


def test_the_error_of_such_scores_names_component_and_problem(train, tmp_path):
    scores = "[1e30 * (i % 2) for i, _ in enumerate(completions)]"
    (tmp_path / "large.py").write_text(f"def large(completions, **columns):\n    return {scores}\n")
    component = {"function": f"{tmp_path}/large.py:large", "parameters": {}}
    with pytest.raises(StudyError, match=r"components\.length: at step 1, problem \S+: the scores are finite, but"):
        train("large", components={"length": component})
