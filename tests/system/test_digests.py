"""Digests of files and folders."""

import pytest

from reward_ablation.system.digests import folder_fingerprint


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
