"""Canonical JSON."""

import pytest

from reward_ablation.study.canonical import canonical, key_of
from reward_ablation.study.spec import folder_fingerprint


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


@pytest.mark.parametrize("place", [0, 5_000_000, 19_999_999])  # the start, the midst, and the end of the weights
def test_a_fine_tuned_model_has_another_fingerprint(tmp_path, place):
    """Fine-tuning changes weights all over: here 1 MB of 20 MB around one place."""
    fingerprints = []
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        weights = bytearray(20_000_000)
        if number:
            start = min(place, len(weights) - 1_000_000)
            weights[start : start + 1_000_000] = b"1" * 1_000_000
        (folder / "model.safetensors").write_bytes(weights)
        fingerprints.append(folder_fingerprint(folder))
    assert fingerprints[0] != fingerprints[1]
