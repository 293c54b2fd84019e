import pandas as pd
import pytest

from reward_ablation.analysis.training.tables import sampling_gaps

ROLLOUTS = pd.DataFrame(
    {
        "tokens": [10, 25, 26, 80, 100],
        "sampling_gap": [0.01, 0.04, 0.02, 0.03, None],
        "sampling_corrected": [0.0, 0.1, 0.5, 1.0, None],
    }
)


def test_completions_are_told_apart_by_quarters_of_the_longest():
    found = sampling_gaps(ROLLOUTS, longest=100).set_index(["over", "up_to"])
    assert list(found.index) == [(0, 25), (25, 50), (75, 100)]
    assert found["completions"].tolist() == [2, 1, 1]


def test_means_are_over_tokens():
    first = sampling_gaps(ROLLOUTS, longest=100).iloc[0]
    assert first["gap"] == pytest.approx((10 * 0.01 + 25 * 0.04) / 35)
    assert first["corrected"] == pytest.approx(2.5 / 35)


def test_what_transformers_generates_has_none():
    assert sampling_gaps(ROLLOUTS.assign(sampling_gap=None), longest=100).empty
