"""Models that are not what was written, by the digests of their record, or whose values are not finite."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from reward_ablation.config.sections.model import LocalModel
from reward_ablation.models.check import check_model
from reward_ablation.models.fetch import fetch
from reward_ablation.models.verify import check_trained, first_not_finite, verify_model
from reward_ablation.system.errors import NotFinite, StudyError
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


@pytest.mark.parametrize(
    ("damage", "name"), [(flip, "model.safetensors"), (truncate, "config.json"), (Path.unlink, "tokenizer.json")]
)
def test_a_damaged_base_model_is_refused(base, damage, name):
    damage(base / name)
    what = "there is no such file" if damage is Path.unlink else "truncated or changed since it was written"
    with pytest.raises(StudyError) as error:
        verify_model(base)
    assert str(error.value).startswith(f"{base / name}: {what}")
    assert str(error.value).endswith(f"; delete {base} and run the workflow again, which fetches it again")


def test_a_damaged_model_of_a_run_is_refused(trained):
    flip(trained / "model.safetensors")
    with pytest.raises(StudyError) as error:
        verify_model(trained)
    assert str(error.value).startswith(f"{trained / 'model.safetensors'}: ")
    assert str(error.value).endswith(f"; delete {trained.parent} and run the workflow again, which trains it again")


@pytest.mark.parametrize("record", ["{", "[]", '{"files": {}}'])
def test_a_damaged_record_is_refused(trained, record):
    (trained.parent / "run.json").write_text(record)
    with pytest.raises(StudyError, match="which trains it again"):
        verify_model(trained)


@pytest.mark.parametrize(
    ("kind", "value"), [(torch.float32, math.nan), (torch.bfloat16, math.inf), (torch.float16, -math.inf)]
)
def test_the_first_tensor_that_is_not_finite_is_named(tmp_path, kind, value):
    spoilt = torch.tensor([0.0, value, 1.0]).to(kind)
    save_file({"a": torch.ones(3, dtype=kind), "b": spoilt, "c": spoilt.clone()}, tmp_path / "model.safetensors")
    assert first_not_finite(tmp_path) == "b"
    with pytest.raises(NotFinite, match="the tensor b has values that are NaN or infinite"):
        check_trained(tmp_path)


def test_other_numbers_and_empty_tensors_are_no_reason(tmp_path):
    tensors = {"count": torch.tensor([1]), "none": torch.empty(0), "eight": torch.ones(2).to(torch.float8_e4m3fn)}
    save_file({**tensors, "largest": torch.tensor([torch.finfo(torch.float32).max])}, tmp_path / "model.safetensors")
    assert first_not_finite(tmp_path) is None


def test_such_a_base_model_is_refused_at_fetch(model_copy):
    weights = load_file(model_copy / "model.safetensors")
    name = sorted(weights)[1]
    weights[name].view(-1)[-1] = math.nan
    save_file(weights, model_copy / "model.safetensors", {"format": "pt"})
    with pytest.raises(StudyError, match=f"^copy: the tensor {name} has values that are NaN or infinite"):
        check_model(model_copy, "copy")
