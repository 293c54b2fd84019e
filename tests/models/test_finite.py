"""Models with values that are not finite are found by name, whatever the numbers are stored in."""

from __future__ import annotations

import math

import pytest
import torch
from safetensors.torch import load_file, save_file

from reward_ablation.models.check import check_model
from reward_ablation.models.verify import check_trained, first_not_finite
from reward_ablation.system.errors import NotFinite, StudyError


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float16])
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
