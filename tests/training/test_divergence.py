"""A run whose numbers stop being finite ends with one line, and records that it diverged."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import pytest
import torch
from transformers import TrainerCallback

from reward_ablation.sampling.draws import WatchLogits
from reward_ablation.study.run_folder import DIVERGED, RECORD
from reward_ablation.system.errors import NotFinite, StudyError
from reward_ablation.training.around.divergence import StopAtDivergence
from reward_ablation.training.core.advantages import beyond_range


def test_a_diverged_run_ends_with_one_line_and_a_record(train, tmp_path):
    with pytest.raises(StudyError) as error:
        train("high", training={"learning_rate": 1e20, "max_steps": 4, "lr_scheduler_type": "constant"})
    line = str(error.value)
    assert line.startswith("training: diverged at step 2: the logits that tokens are sampled from are not finite; ")
    assert "last finite gradient norm: " in line
    assert ", at step 1; lower learning_rate" in line
    assert "\n" not in line
    run = tmp_path / "high" / "seed0"
    assert not (run / RECORD).exists()
    record = json.loads((run / DIVERGED).read_text())
    assert (record["step"], record["seed"]) == (2, 0)
    assert record["spec"]["training"]["learning_rate"] == 1e20


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


def test_a_run_that_is_trained_after_all_has_no_record_of_divergence(train, tmp_path):
    folder = tmp_path / "again" / "seed0"
    folder.mkdir(parents=True)
    (folder / DIVERGED).write_text("{}")
    train("again", training={"max_steps": 1})
    assert (folder / RECORD).exists()
    assert not (folder / DIVERGED).exists()


@pytest.mark.parametrize(
    ("logs", "fp16", "stops"),
    [
        ({"loss": math.nan, "grad_norm": 1.0}, False, "the loss is nan"),
        ({"loss": 0.1, "grad_norm": math.inf}, False, "the gradient norm is inf"),
        ({"loss": 0.1, "grad_norm": math.inf}, True, None),  # the scaler skips such a step
        ({"loss": 0.1, "grad_norm": 1e30}, False, None),
        ({"train_loss": 0.1}, False, None),
    ],
)
def test_what_the_log_of_a_step_says(logs, fp16, stops):
    state = SimpleNamespace(global_step=3)

    def see():
        StopAtDivergence().on_log(SimpleNamespace(fp16=fp16), state, None, logs=logs)

    if stops is None:
        see()
        return
    with pytest.raises(NotFinite, match=stops) as error:
        see()
    assert error.value.step == 3


@pytest.mark.parametrize(
    ("row", "defined"),
    [
        ([0.0, 1.0, -math.inf], True),  # a token that is ruled out
        ([0.0, math.nan, 1.0], False),
        ([0.0, math.inf, 1.0], False),
        ([-math.inf, -math.inf, -math.inf], False),
    ],
)
def test_logits_that_give_no_distribution(row, defined):
    watch = WatchLogits()
    for rows in ([[0.0, 1.0, 2.0], row], [[0.0, 1.0, 2.0]] * 2):
        assert watch(None, scores := torch.tensor(rows)) is scores
    if defined:
        watch.refuse_undefined()
    else:
        with pytest.raises(NotFinite, match="logits"):
            watch.refuse_undefined()


@pytest.mark.parametrize(
    ("scores", "found"),
    [
        ([0.0, 1.0, 1e18, 0.0], None),
        ([0.0, 1.0, 1e20, 0.0], (2, 0)),  # the deviation overflows
        ([3e38, 3e38, 0.0, 0.0], (0, 0)),  # the mean does
        ([1e20, 1e20, 0.0, 0.0], None),  # neither does: no group differs in itself
        ([math.nan, math.nan, math.nan, 1.0], None),  # unscored
        ([math.nan, 3e38, math.nan, 3e38], None),  # one score in each group
    ],
)
def test_scores_whose_mean_or_deviation_overflows(scores, found):
    assert beyond_range(torch.tensor(scores)[:, None], size=2) == found


def test_the_error_of_such_scores_names_component_and_problem(train, tmp_path, monkeypatch):
    scores = "[1e30 * (i % 2) for i, _ in enumerate(completions)]"
    (tmp_path / "large.py").write_text(f"def large(completions, **columns):\n    return {scores}\n")
    monkeypatch.chdir(tmp_path)
    component = {"function": "large.py:large", "parameters": {}}
    told = r"components\.large: at step 1, problem \S+: the scores are finite, but"
    with pytest.raises(StudyError, match=told) as error:
        train("large", components={"large": component}, weights={"large": 1.0}, training={"max_steps": 1})
    assert "diverged" not in str(error.value)
