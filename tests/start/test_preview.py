"""Which runs and evaluations of a study count as finished, from the files on disk."""

import pytest

from reward_ablation.start.preview import _largest_part


@pytest.mark.parametrize(
    ("evaluated", "first", "shown", "runs"),
    [
        ({}, [], "", ""),
        ({"a": "123", "b": "12"}, [], "ab", "12"),
        ({"a": "1234", "b": "1"}, ["b"], "a", "1234"),  # b was added later, and is evaluated now
        ({"a": "12", "b": "34"}, ["b"], "b", "34"),  # the primary question's
        ({"a": "12", "b": "12", "c": "1"}, [], "abc", "1"),
    ],
)
def test_evaluation_sets_that_cost_few_runs_are_shown(evaluated, first, shown, runs):
    found = _largest_part({name: set(models) for name, models in evaluated.items()}, first)
    assert found == (set(shown), set(runs))
