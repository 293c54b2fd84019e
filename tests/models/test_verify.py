"""Models that are not what was written, by the digests of their record, or whose values are not finite."""

import math

import pytest
import torch
from safetensors.torch import save_file

from reward_ablation.models.verify import check_trained, first_not_finite, verify_model
from reward_ablation.system.errors import NotFinite, StudyError
from reward_ablation.system.files import sha256, write_json


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


@pytest.fixture(params=["base", "of a run"])
def recorded(request, model_copy):
    """A model with a record: its folder, the record's path, and the end of each refusal."""
    names = [path.name for path in model_copy.iterdir()]
    if request.param == "base":
        files = {
            name: {"size": (model_copy / name).stat().st_size, "sha256": sha256(model_copy / name)} for name in names
        }
        record, remedy = model_copy / "model.json", f"delete {model_copy} and run the workflow again, which fetches it"
    else:
        files = {f"{model_copy.name}/{name}": sha256(model_copy / name) for name in names}
        record = model_copy.parent / "run.json"
        remedy = f"delete {model_copy.parent} and run the workflow again, which trains it"
    write_json({"files": files}, record)
    return model_copy, record, f"; {remedy} again$"


def test_a_damaged_model_is_refused_by_its_record(recorded, tiny_model):
    folder, record, remedy = recorded
    verify_model(folder)
    verify_model(tiny_model)  # no record: not of the workflow's making
    weights, config = folder / "model.safetensors", folder / "config.json"
    content = weights.read_bytes()
    flipped = content[:-8] + bytes([content[-8] ^ 1]) + content[-7:]  # nothing but a digest sees it
    for path, damaged in ((weights, flipped), (config, config.read_bytes()[:-8])):
        whole = path.read_bytes()
        path.write_bytes(damaged)
        with pytest.raises(StudyError, match=f"^{path}: truncated or changed since it was written.*{remedy}"):
            verify_model(folder)
        path.write_bytes(whole)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(StudyError, match=f"^{folder / 'tokenizer.json'}: there is no such file.*{remedy}"):
        verify_model(folder)
    for damaged in ("{",) if record.name == "model.json" else ("{", '{"files": {}}'):
        record.write_text(damaged)
        with pytest.raises(StudyError, match=remedy):
            verify_model(folder)
