"""Files with a second name (links), and digests of folders."""

import os

import pytest

from reward_ablation.system.digests import folder_fingerprint
from reward_ablation.system.files import link_or_copy


@pytest.fixture(params=["links", "no links"])
def links(request, monkeypatch):
    """Whether the file system has links; without, it answers as FAT and some network file systems do."""

    def refuse(source, target):
        raise PermissionError(1, "Operation not permitted")

    if request.param == "no links":
        monkeypatch.setattr(os, "link", refuse)
    return request.param == "links"


def test_a_second_name_takes_the_place_of_what_had_it(links, tmp_path):
    source, target = tmp_path / "source", tmp_path / "folder" / "target"
    source.write_text("new")
    target.parent.mkdir()
    target.write_text("old")
    link_or_copy(source, target)
    assert target.read_text() == "new"
    assert target.samefile(source) == links
    assert sorted(path.name for path in target.parent.iterdir()) == ["target"]


def test_a_fine_tuned_model_has_another_fingerprint(tmp_path):
    """Fine-tuning changes weights all over: here 1 MB of 20 MB: nowhere, and at three places."""
    fingerprints = []
    for place in (None, 0, 5_000_000, 19_000_000):
        folder = tmp_path / str(place)
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        weights = bytearray(20_000_000)
        if place is not None:
            weights[place : place + 1_000_000] = b"1" * 1_000_000
        (folder / "model.safetensors").write_bytes(weights)
        fingerprints.append(folder_fingerprint(folder))
    assert len(set(fingerprints)) == 4
