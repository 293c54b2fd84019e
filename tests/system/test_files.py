"""Files with a second name (links), and digests of folders."""

import os

import pytest

from reward_ablation.system.digests import folder_fingerprint
from reward_ablation.system.files import link_or_copy


@pytest.mark.parametrize("links", [True, False])
def test_a_second_name_takes_the_place_of_what_had_it(links, tmp_path, monkeypatch):
    """Without links the file system answers as FAT and some network file systems do."""

    def refuse(source, target):
        raise PermissionError(1, "Operation not permitted")

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    source, target = tmp_path / "source", tmp_path / "folder" / "target"
    source.write_text("new")
    target.parent.mkdir()
    target.write_text("old")
    link_or_copy(source, target)
    assert target.read_text() == "new"
    assert target.samefile(source) == links
    assert [path.name for path in target.parent.iterdir()] == ["target"]


def test_a_fine_tuned_model_has_another_fingerprint(tmp_path):
    """Fine-tuning changes weights all over: here 1 MB of 20 MB: nowhere, and at two places."""
    fingerprints = set()
    for place in (None, 5_000_000, 19_000_000):
        folder = tmp_path / str(place)
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        weights = bytearray(20_000_000)
        if place is not None:
            weights[place : place + 1_000_000] = b"1" * 1_000_000
        (folder / "model.safetensors").write_bytes(weights)
        fingerprints.add(folder_fingerprint(folder))
    assert len(fingerprints) == 3
