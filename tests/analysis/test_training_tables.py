import numpy as np
import pandas as pd
import pytest

from reward_ablation.analysis.gradients.tables import GRADIENT_COLUMNS, similarity_by_step
from reward_ablation.analysis.runs import first_difference
from reward_ablation.analysis.training.tables import rewards_by_step


def test_rewards_by_step():
    rollouts = pd.DataFrame(
        {
            "step": [2, 2, 1, 1],
            "score_correctness": [1.0, 0.0, 1.0, 1.0],
            "score_format": [None, 0.5, None, None],  # a component that cannot score a rollout
            "total": [1.0, 0.5, 1.0, 1.0],
            "tokens": [10, 30, 20, 20],
            "truncated": [False, True, False, False],
        }
    )
    table = rewards_by_step(rollouts, ["correctness", "format"])
    assert list(table["step"]) == [1] * 5 + [2] * 5
    assert list(table["quantity"])[:5] == ["correctness", "format", "total", "tokens", "truncated"]
    second = table[table["step"] == 2].set_index("quantity")
    assert second.loc["correctness", "mean"] == 0.5
    assert second.loc["correctness", "std"] == pytest.approx(0.5**0.5)  # of 1 and 0, with n - 1
    assert tuple(second.loc["format", ["mean", "rollouts", "unscored"]]) == (0.5, 1, 1)
    assert np.isnan(second.loc["format", "std"])  # one value has no spread
    assert second.loc["tokens", "mean"] == 20
    assert second.loc["truncated", "mean"] == 0.5
    first = table[table["step"] == 1].set_index("quantity")
    assert np.isnan(first.loc["format", "mean"])
    assert tuple(first.loc["format", ["rollouts", "unscored"]]) == (0, 2)
    assert (first.loc[["correctness", "total", "tokens", "truncated"], "unscored"] == 0).all()


def test_similarity_keeps_pairs_and_their_order():
    labels = [
        (1, "layers.1", "a", "a", "alone", 4.0, 1.0),
        (1, "layers.1", "a", "b", "alone", 0.0, None),  # a zero gradient
        (1, "layers.0", "a", "b", "alone", -2.0, -0.5),
        (1, "layers.0", "a", "b", "share", 9.0, 0.9),
    ]
    gradients = pd.DataFrame(labels, columns=GRADIENT_COLUMNS[:7]).reindex(columns=[*GRADIENT_COLUMNS, "self_low"])
    table = similarity_by_step(gradients)
    assert list(table["layer"]) == ["layers.1", "layers.0", "layers.0"]
    assert list(table["definition"]) == ["alone", "alone", "share"]
    assert list(table["dot"]) == [0.0, -2.0, 9.0]
    assert np.isnan(table["cosine"].iloc[0])


@pytest.mark.parametrize(
    ("recorded", "planned", "difference"),
    [
        ({"a": 1, "b": {"c": 2}}, {"b": {"c": 2}, "a": 1.0}, None),  # order and 1 for 1.0 mean nothing
        ({"b": {"c": 2}}, {"b": {"c": 3}}, "spec.b.c is 2 there and 3 in the study"),
        ({}, {"b": None}, 'spec.b is "(absent)" there and null in the study'),
    ],
)
def test_first_difference(recorded, planned, difference):
    assert first_difference(recorded, planned) == difference
