"""Rewards, training signals and correlations of components, by hand."""

import numpy as np
import pandas as pd
import pytest

from analysis.made_up import MadeUpStudy, advantage_shares, made_tables
from reward_ablation.analysis.study_file import read_study
from reward_ablation.analysis.training import (
    component_correlations,
    pair_sums,
    rewards_by_step,
    step_signals,
    thinned,
)

WEIGHTS = {"right": 1.0, "form": 0.5}


def rollouts(right, form, tokens=None, weights=WEIGHTS, problems=2) -> pd.DataFrame:
    """One step of two problems unless told otherwise; the advantage is not scaled."""
    scores = np.array([right, form], dtype=float).T
    vector = np.array(list(weights.values()))
    group = len(right) // problems
    shares = advantage_shares(scores, vector, group, "none")
    table = pd.DataFrame({"problem_id": np.repeat([f"p{n}" for n in range(problems)], group)}).assign(
        step=1,
        tokens=np.arange(len(right)) if tokens is None else tokens,
        total=np.where(np.isnan(scores).all(axis=1), np.nan, np.nan_to_num(scores * vector).sum(axis=1)),
        advantage=shares.sum(axis=1),
    )
    for k, name in enumerate(weights):
        table[f"score_{name}"], table[f"advantage_{name}"] = scores[:, k], shares[:, k]
    return table


def test_variances_and_covariances_are_within_groups():
    # problem 1: right 1 1 0 0, form 1 0 1 0; problem 2 is easy: right 1 1 1 1, form 0 0 0 1
    table = rollouts([1, 1, 0, 0, 1, 1, 1, 1], [1, 0, 1, 0, 0, 0, 0, 1])
    found = step_signals(table, WEIGHTS).loc[1]
    # n - 1: problem 1 has 4 * .25 / 3 = 1/3, problem 2 has 0
    assert found["variance", "right"] == pytest.approx((1 / 3 + 0) / 2)
    # form: 1/3, and (3 * 1/16 + 9/16) / 3 = 1/4
    assert found["variance", "form"] == pytest.approx((1 / 3 + 1 / 4) / 2)
    # cov(right, right + form / 2) = 1/3 + 0 in problem 1: right and form are uncorrelated there
    assert found["covariance", "right"] == pytest.approx(1 / 6)
    assert found["covariance", "form"] == pytest.approx((1 / 6 + 1 / 8) / 2)
    # the total is 1.5 1 .5 0: variance 5/12; and 1 1 1 1.5: 1/16
    assert found["variance", ""] == pytest.approx((5 / 12 + 1 / 16) / 2)
    # advantages that are not scaled are the total less its mean
    assert found["covariance_with_advantage", "form"] == pytest.approx(found["covariance", "form"])
    assert found["alike", "right"] == 0.5
    assert found["alike", "form"] == found["no_signal", ""] == 0
    assert found["score", "right"] == 0.75


def test_shares_of_the_advantage_add_up_to_one_and_count_components_that_cancel():
    table = rollouts([1, 0, 1, 0], [0, 1, 0, 1], weights={"right": 1.0, "form": 1.0}, problems=1)
    found = step_signals(table, {"right": 1.0, "form": 1.0}).loc[1]
    assert (found["advantage_share", "right"], found["advantage_share", "form"]) == (0.5, 0.5)
    assert found["no_signal", ""] == 1  # the total is 1 for each
    half = step_signals(rollouts([1, 0, 1, 0], [0, 1, 0, 1], problems=1), WEIGHTS).loc[1]
    assert half["advantage_share", "right"] == pytest.approx(2 / 3)  # 1/2 against 1/2 * 1/2
    # components that cancel are a signal where each is normalised first
    assert step_signals(table, {"right": 1.0, "form": 1.0}, "normalize_then_sum").loc[1]["no_signal", ""] == 0
    weights = {"right": 1.0, "form": 0.0}
    ablated = step_signals(rollouts([1, 1, 0, 0], [1, 1, 0, 0], weights=weights, problems=1), weights).loc[1]
    assert ablated["covariance", "form"] == pytest.approx(1 / 3)
    assert ablated["advantage_share", "form"] == 0


def test_there_is_no_covariance_with_a_total_that_is_not_trained_on(tmp_path, capsys):
    """TRL scales each component by itself, with which a component may fall although its covariance is above 0."""
    each_scaled = {"multi_objective_aggregation": "normalize_then_sum"}
    made = MadeUpStudy(steps=2, training=dict.fromkeys(["equal_weights", "format_only"], each_scaled))
    study = read_study(made.write(tmp_path))
    signals = made_tables(tmp_path, "training")["signals_by_step"]
    of_total = signals[(signals["quantity"] == "covariance") | signals["component"].isna()]
    known = of_total[of_total["value"].notna()].groupby("arm")["quantity"].unique().map(sorted).to_dict()
    all_known = ["covariance", "no_signal", "variance"]
    assert known == {**dict.fromkeys(study.arm_names, all_known), "equal_weights": ["no_signal"]}
    assert study.arms_off_the_total == ["equal_weights"]  # format_only has one component, whose total it is
    assert "no covariance with the total in equal_weights: not trained on it" in capsys.readouterr().out


def test_scores_that_are_not_known_are_left_out():
    table = rollouts([1, np.nan, 0, 1], [np.nan] * 4, problems=1)
    found = step_signals(table, WEIGHTS).loc[1]
    assert found["variance", "right"] == pytest.approx(1 / 3)  # of 1, 0 and 1
    assert np.isnan([found["variance", "form"], found["score", "form"]]).all()
    assert found["alike", "form"] == 1
    assert found["advantage_share", "right"] == 1


def test_lengths_of_right_and_of_wrong_completions():
    table = rollouts([1, -1, 1, -1], [0, 0, 0, 0], tokens=[10, 30, 20, 50], problems=1)
    found = step_signals(table, WEIGHTS, correctness=("right", 1.0)).loc[1]
    assert (found["tokens_correct", "right"], found["tokens_wrong", "right"]) == (15, 40)
    all_right = rollouts([1, 1], [0, 0], problems=1)
    assert np.isnan(step_signals(all_right, WEIGHTS, correctness=("right", 1.0)).loc[1]["tokens_wrong", "right"])


def test_with_one_rollout_a_problem_the_step_is_the_group():
    table = rollouts([1, 0, 1, 1], [1, 0, 0, 0], problems=4)
    found = step_signals(table, WEIGHTS, single=True).loc[1]
    assert list(table["advantage"]) == [1.5, 0, 1, 1]
    assert found["no_signal", ""] == 0.25  # the one without a reward
    assert found["variance", "right"] == pytest.approx(0.25)  # (3 / 16 + 9 / 16) / 3
    assert found["alike", "form"] == 0


def test_many_steps_are_averaged():
    table = pd.DataFrame({("score", "a"): np.arange(5.0)}, index=pd.Index([1, 2, 3, 4, 7], name="step"))
    table.columns.names = ["quantity", "component"]
    assert thinned(table, 5) is table
    few = thinned(table, 3)
    assert list(few.index) == [2, 4, 7]
    assert list(few["score", "a"]) == [0.5, 2.5, 4.0]


def test_signals_of_a_method_are_by_its_advantages_and_not_by_the_weighted_total():
    # The totals of problem 1 differ, and the method gave it no advantage; of problem 2 it is the other way round.
    table = rollouts([1, 1, 0, 0, 1, 1, 1, 1], [1, 0, 1, 0, 0, 0, 0, 0])
    table["advantage"] = [1e-17, 0, 0, 0, 1.0, -1.0, 0, 0]
    found = step_signals(table, WEIGHTS, None, of_total=False).loc[1]
    assert found["no_signal", ""] == 0.5
    assert np.isnan([found["variance", ""], found["covariance", "right"], found["covariance", "form"]]).all()
    # problem 1: 0 but for rounding; problem 2: the scores are alike
    assert found["covariance_with_advantage", "right"] == pytest.approx(0.0, abs=1e-9)
    assert found["alike", "right"] == 0.5
    assert list(found.index) == list(step_signals(table, WEIGHTS).columns)


def test_rewards_by_step():
    rollouts = pd.DataFrame({"step": [2, 2, 1, 1], "score_correctness": [1.0, 0.0, 1.0, 1.0]}).assign(
        score_format=[None, 0.5, None, None],  # a component that cannot score a rollout
        total=[1.0, 0.5, 1.0, 1.0],
        tokens=[10, 30, 20, 20],
        truncated=[False, True, False, False],
    )
    table = rewards_by_step(rollouts, ["correctness", "format"])
    assert list(table["step"]) == [1] * 5 + [2] * 5
    assert list(table["quantity"])[:5] == ["correctness", "format", "total", "tokens", "truncated"]
    second = table[table["step"] == 2].set_index("quantity")
    assert second["mean"].tolist() == [0.5, 0.5, 0.75, 20, 0.5]
    assert second.loc["correctness", "std"] == pytest.approx(0.5**0.5)  # of 1 and 0, with n - 1
    assert tuple(second.loc["format", ["rollouts", "unscored"]]) == (1, 1)
    assert np.isnan(second.loc["format", "std"])  # one value has no spread
    first = table[table["step"] == 1].set_index("quantity")
    assert np.isnan(first.loc["format", "mean"])
    assert first["unscored"].tolist() == [0, 2, 0, 0, 0]


def groups_of_four(seed):
    """30 steps of groups of 4: normal scores of correlation .6 within them; how easy a problem is moves both scores."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, 960))
    level = 3 * np.repeat(rng.normal(size=240), 4)
    labels = {
        "step": np.repeat(np.arange(30), 32),
        "problem_id": np.tile(np.repeat(np.arange(8), 4).astype(str), 30),
    }
    # the mean of four scores of .7 is not always .7
    return pd.DataFrame(labels | {"score_a": a + level, "score_b": 0.6 * a + 0.8 * b + level, "score_c": 0.7})


def test_a_correlation_by_hand():
    # deviations from the group: a -1 1 | -1 1, b -1 1 | 1 -1 and once more -1 1: products 2 - 2 + 2, squares 6 and 6
    labels = {"step": [1, 1, 1, 1, 2, 2], "problem_id": [*"ppqqpp"]}
    table = pd.DataFrame(labels | {"score_a": [0.0, 2, 5, 7, 0, 2], "score_b": [0.0, 2, 9, 7, 3, 5]})
    found = component_correlations({0: pair_sums(table, ["a", "b"])}, "arm", 50, 0.95).iloc[0]
    assert found["estimate"] == pytest.approx(2 / 6)
    assert (found["seeds"], found["steps"]) == (1, 2)


def test_intervals_hold_the_truth_and_constants_have_no_correlation():
    sums = {seed: pair_sums(groups_of_four(seed), ["a", "b", "c"]) for seed in (0, 1)}
    found = component_correlations(sums, "arm", 400, 0.95).set_index(["component_a", "component_b"])
    assert found.loc[("a", "b"), "low"] < 0.6 < found.loc[("a", "b"), "high"]
    assert found.loc[("a", "b"), "high"] - found.loc[("a", "b"), "low"] < 0.1
    assert np.isnan(found.loc[("a", "c"), ["estimate", "low", "high"]].astype(float)).all()
