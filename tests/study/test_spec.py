"""Canonical JSON."""

import pytest

from reward_ablation.study.canonical import canonical, key_of


def test_equal_values_have_one_spelling():
    assert canonical({"b": 1.0, "a": [0.5, True, None]}) == canonical({"a": (0.5, True, None), "b": 1})
    assert canonical({"b": 1.0, "a": 1e22}) == '{"a":10000000000000000000000,"b":1}'


def test_true_is_not_one():
    assert canonical({"a": True}) != canonical({"a": 1})


def test_a_number_that_is_not_finite_is_refused():
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical({"a": float("inf")})


def test_key_is_eight_hex_digits():
    assert key_of({"a": 1}) == "015abd7f"  # python -c 'hashlib.sha256(b"{\"a\":1}")'
