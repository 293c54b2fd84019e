"""Numbers as sentences and labels have them."""

import math

import pytest

from reward_ablation.analysis.reward_hacking import short
from reward_ablation.analysis.statistics.limits import COUNT, SHARE, UNLIMITED, Limits
from reward_ablation.analysis.words import from_to, number, numbers, with_interval


@pytest.mark.parametrize(
    ("limits", "values", "written"),
    [
        (UNLIMITED, (-0.000497, -0.000504, -0.00049), "−0.000497 [−0.000504, −0.000490]"),
        (UNLIMITED, (-0.0001, -0.3, 0.3), "0.000 [−0.300, 0.300]"),  # small beside its interval
        (UNLIMITED, (5.0, 5.0 - 1e-12, 5.0), "5.000 [5.000, 5.000]"),  # apart by a rounding error
        (UNLIMITED, (0.0002, math.nan, math.nan), "0.00020 [not known, not known]"),
        (UNLIMITED, (math.nan, math.nan, math.nan), "not known [not known, not known]"),
        (SHARE, (-0.000497, -0.000504, -0.00049), "−0.000 [−0.001, −0.000]"),
        (Limits(0, 100), (0.0004, 0.0003, 0.0005), "0.000 [0.000, 0.001]"),
        (COUNT, (0.04, 0.01, 0.06), "0.0 [0.0, 0.1]"),
    ],
)
def test_small_numbers_without_limits_are_not_written_as_zero(limits, values, written):
    assert with_interval(dict(zip(("estimate", "low", "high"), values, strict=True)), limits) == written


def test_numbers_that_are_compared_differ_where_they_do():
    assert numbers(UNLIMITED, 5.0001, 5.0002) == ["5.00010", "5.00020"]
    assert numbers(SHARE, 0.5, 0.25) == ["0.500", "0.250"]
    assert number(0.0004, UNLIMITED) == "0.00040"
    assert numbers(UNLIMITED) == []


def test_a_rounding_error_does_not_decide_how_a_half_is_rounded():
    mean = (0.114 + 0.091) / 2
    assert mean > 0.1025
    assert number(mean, SHARE) == number(0.1025, SHARE) == short(mean)
    assert [short(value) for value in (-0.5, 1234.5)] == ["−0.500", "1,234"]


def test_counts_from_the_fewest_to_the_most():
    written = [from_to(*ends, "seed") for ends in ((1, 1), (3, 3), (1000, 20000))]
    assert written == ["1 seed", "3 seeds", "1,000 to 20,000 seeds"]
