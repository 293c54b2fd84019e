"""Predictions from stored files, of other weights and of methods, against training with those weights and methods."""

import numpy as np
import pandas as pd
import pytest
import torch

from reward_ablation.analysis.gradients.measured_steps import leave_one_out_scores
from reward_ablation.analysis.gradients.methods_offline import method_of_arm, methods_offline, read_history, replay
from reward_ablation.analysis.gradients.what_if import read_measured_step, what_if
from reward_ablation.models.load import load_model
from reward_ablation.sampling.tokenizer import load_tokenizer

from .test_combination import STATES, combine
from .test_placed_training import SGD, log_probabilities, one_step  # noqa: F401

ASKED = {"correctness": 1.0, "format": 0.5, "length": 0.0}
OTHER = {"correctness": -0.5, "format": 2.0, "length": 1.0}
#: Settings of some arms, and a run that TRL combines.
ARMS = {
    "static": {"components": combine("upgrad")["components"]},
    **{method: combine(method, **STATES[method]) for method in ("upgrad", "lagrangian")},
}


@pytest.mark.parametrize("training", [{"beta": 0.1}, {"num_generations": 1}], ids=str)
def test_other_weights_are_answered_as_training_with_them_measures(one_step, training):  # noqa: F811
    """The first step's rollouts are the same for all weights: its measured shares are what was asked for."""
    asked, _ = one_step("asked", weights=ASKED, max_completion_length=24, **training)
    trained, _ = one_step("trained", weights=OTHER, max_completion_length=24, **training)
    answer = what_if(OTHER, read_measured_step(asked, 1)).similarity
    measured = pd.read_parquet(trained / "gradients.parquet").query("definition == 'share'")
    both = answer.merge(measured, on=["layer", "component_a", "component_b"], suffixes=("", "_measured"))
    assert len(both) == len(answer[~answer["component_a"].eq("total") & ~answer["component_b"].eq("total")])
    assert (both["cosine"] - both["cosine_measured"]).abs().max() < 2e-3
    assert ((both["dot"] - both["dot_measured"]).abs() / (both["norm_a"] * both["norm_b"])).max() < 2e-3


def test_a_small_step_has_the_effect_that_was_foretold(one_step, demo_model, problems):  # noqa: F811
    """Training with other weights moves each component's expected score as the first run's files say."""
    plain = {**SGD, "loss_type": "grpo", "max_completion_length": 24}
    asked, _ = one_step("asked", weights=ASKED, **{**plain, "learning_rate": 1e-9})
    effect = what_if(OTHER, read_measured_step(asked, 1)).effect.query("layer == 'all'").set_index("component").effect
    rate = 3e-3
    trained, completion_ids = one_step("trained", weights=OTHER, **{**plain, "learning_rate": rate})
    rollouts, tokenizer = pd.read_parquet(trained / "rollouts.parquet"), load_tokenizer(demo_model)
    questions = pd.read_parquet(problems).set_index("id").question[rollouts.problem_id]
    before, after = [], []
    for folder, values in ((demo_model, before), (trained / "model", after)):
        model = load_model(folder)
        with torch.no_grad():
            for question, ids in zip(questions, completion_ids, strict=True):
                values.append(log_probabilities(model, tokenizer, question, ids).sum().item())
    scores = rollouts[[f"score_{name}" for name in OTHER]].to_numpy()
    likelier = np.exp(np.subtract(after, before)) - 1
    change = (leave_one_out_scores(scores, 4) * likelier[:, None]).mean(axis=0)
    expected = effect[list(OTHER)].to_numpy()
    assert change / rate == pytest.approx(expected, rel=0.03, abs=0.03 * np.abs(expected).max())


@pytest.mark.parametrize("arm", ARMS)
def test_the_offline_step_of_a_runs_method_is_the_step_that_was_trained(trained, arm):
    run = trained(**ARMS[arm])
    history = read_history(run)
    own = methods_offline(run, {"own": method_of_arm(history.spec)}).estimates.set_index("quantity")["estimate"]
    assert own["cosine"] == pytest.approx(1.0, abs=1e-3)
    assert own["length"] == pytest.approx(1.0, abs=1e-3)
    assert own["gain"].to_numpy() == pytest.approx(np.zeros(3), abs=1e-3)
    if arm != "static":
        replayed = replay(history, method_of_arm(history.spec))
        logged = pd.read_parquet(run / "weights.parquet")
        offline = [replayed.weights[row.step][history.components.index(row.component)] for row in logged.itertuples()]
        np.testing.assert_allclose(offline, logged["weight"], rtol=1e-4)
        assert logged.groupby("component")["weight"].nunique().max() > 1


def test_the_first_step_of_another_arm_is_known_from_one_arm(trained):
    """All arms of a seed have the same completions at their first step."""
    static, other = (trained(**ARMS[arm]) for arm in ("static", "lagrangian"))
    first = replay(read_history(static), method_of_arm(read_history(other).spec)).shares[1]
    rollouts = pd.read_parquet(other / "rollouts.parquet").query("step == 1")
    stored = rollouts.sort_values(["problem_id", "rollout"])[[f"advantage_{n}" for n in read_history(other).components]]
    np.testing.assert_allclose(first, stored, atol=1e-5)
    assert np.abs(first).max() > 0.5
