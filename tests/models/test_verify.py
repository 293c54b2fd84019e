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


def test_a_whole_model_passes(base, trained, tiny_model):
    verify_model(base)
    verify_model(trained)
    verify_model(tiny_model)  # no record: not of the workflow's making


def test_a_damaged_base_model_is_refused(base):
    weights, config = base / "model.safetensors", base / "config.json"
    ending = rf"; delete {base} and run the workflow again, which fetches it again$"
    for path, damaged in ((weights, flipped(weights.read_bytes())), (config, config.read_bytes()[:-8])):
        whole = path.read_bytes()
        path.write_bytes(damaged)
        with pytest.raises(StudyError, match=f"^{path}: truncated or changed since it was written.*{ending}"):
            verify_model(base)
        path.write_bytes(whole)
    (base / "tokenizer.json").unlink()
    with pytest.raises(StudyError, match=f"^{base / 'tokenizer.json'}: there is no such file.*{ending}"):
        verify_model(base)


def test_a_damaged_model_of_a_run_is_refused(trained):
    ending = f"; delete {trained.parent} and run the workflow again, which trains it again$"
    path = trained / "model.safetensors"
    path.write_bytes(flipped(path.read_bytes()))
    with pytest.raises(StudyError, match=f"^{path}: .*{ending}"):
        verify_model(trained)
    for record in ("{", '{"files": {}}'):
        (trained.parent / "run.json").write_text(record)
        with pytest.raises(StudyError, match=ending):
            verify_model(trained)


@pytest.mark.parametrize(
    ("kind", "value"), [(torch.float32, math.nan), (torch.bfloat16, math.inf), (torch.float16, -math.inf)]
)
def test_the_first_tensor_that_is_not_finite_is_named(tmp_path, kind, value):
    spoilt = torch.tensor([0.0, value, 1.0]).to(kind)
    others = {"count": torch.tensor([1]), "none": torch.empty(0), "eight": torch.ones(2).to(torch.float8_e4m3fn)}
    whole = {**others, "a": torch.tensor([torch.finfo(kind).max], dtype=kind)}
    save_file(whole, tmp_path / "model.safetensors")
    assert first_not_finite(tmp_path) is None
    save_file({**whole, "b": spoilt, "z": spoilt.clone()}, tmp_path / "model.safetensors")
    assert first_not_finite(tmp_path) == "b"
    with pytest.raises(NotFinite, match="the tensor b has values that are NaN or infinite"):
        check_trained(tmp_path)


def test_such_a_base_model_is_refused_at_fetch(model_copy):
    weights = load_file(model_copy / "model.safetensors")
    name = sorted(weights)[1]
    weights[name].view(-1)[-1] = math.nan
    save_file(weights, model_copy / "model.safetensors", {"format": "pt"})
    with pytest.raises(StudyError, match=f"^copy: the tensor {name} has values that are NaN or infinite"):
        check_model(model_copy, "copy")


def flipped(content: bytes) -> bytes:
    return content[:-8] + bytes([content[-8] ^ 1]) + content[-7:]  # of the weights: nothing but a digest sees it
