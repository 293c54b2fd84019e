"""Models against the digests of their record: messages for a flipped bit, a short file and a missing file."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from reward_ablation.config.sections.model import LocalModel
from reward_ablation.models.fetch import fetch
from reward_ablation.models.verify import verify_model
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import sha256, write_json


@pytest.fixture(scope="module")
def fetched(tiny_model, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "base"
    fetch(LocalModel(path=str(tiny_model)), folder / "model.json")
    return folder


@pytest.fixture
def base(fetched, tmp_path) -> Path:
    """A base model as the workflow fetches it."""
    return Path(shutil.copytree(fetched, tmp_path / "models" / "base"))


@pytest.fixture
def trained(tiny_model, tmp_path) -> Path:
    """A run's model, with the run's record beside it."""
    run = tmp_path / "runs" / "arm-01234567" / "seed0"
    shutil.copytree(tiny_model, run / "model")
    files = {str(path.relative_to(run)): sha256(path) for path in run.rglob("*") if path.is_file()}
    write_json({"files": files}, run / "run.json")
    return run / "model"


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-8] ^= 1  # of the weights: nothing but a digest sees it
    path.write_bytes(content)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-8])


def test_a_whole_model_passes(base, trained, tiny_model):
    verify_model(base)
    verify_model(trained)
    verify_model(tiny_model)  # no record: not of the workflow's making


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
@pytest.mark.parametrize("damage", [flip, truncate, Path.unlink])
def test_a_damaged_base_model_is_refused(base, damage, name):
    damage(base / name)
    what = "there is no such file" if damage is Path.unlink else "truncated or changed since it was written"
    with pytest.raises(StudyError) as error:
        verify_model(base)
    assert str(error.value).startswith(f"{base / name}: {what}")
    assert str(error.value).endswith(f"; delete {base} and run the workflow again, which fetches it again")


@pytest.mark.parametrize("damage", [flip, truncate, Path.unlink])
def test_a_damaged_model_of_a_run_is_refused(trained, damage):
    damage(trained / "model.safetensors")
    with pytest.raises(StudyError) as error:
        verify_model(trained)
    assert str(error.value).startswith(f"{trained / 'model.safetensors'}: ")
    assert str(error.value).endswith(f"; delete {trained.parent} and run the workflow again, which trains it again")


@pytest.mark.parametrize("record", ["{", "[]", '{"files": {}}'])
def test_a_damaged_record_is_refused(trained, record):
    (trained.parent / "run.json").write_text(record)
    with pytest.raises(StudyError, match="which trains it again"):
        verify_model(trained)
