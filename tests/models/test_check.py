"""Folders that are refused as models, and the messages."""

from __future__ import annotations

import json
import shutil

import pytest

from reward_ablation.models.check import check_model, check_names, wanted
from reward_ablation.system.errors import StudyError


def test_counts_parameters_and_names_the_class(tiny_model):
    # embedding 270·8, attention 4·64 + 3·8, MLP 3·128, norms 3·8; the tied head is not stored again
    assert check_model(tiny_model, "tiny") == (270 * 8 + 4 * 64 + 3 * 8 + 3 * 128 + 3 * 8, "Qwen2ForCausalLM")


def test_only_the_files_of_a_model_are_taken():
    names = ["model.safetensors", "config.json", "merges.txt", "chat_template.jinja", "spiece.model"]
    others = ["model.json", "pytorch_model.bin", "modeling_x.py", "onnx/model.safetensors", "consolidated.safetensors"]
    assert wanted(names + others) == sorted(names)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["config.json", "pytorch_model.bin"], "has pickled weights only"),
        (["adapter_config.json", "adapter_model.safetensors"], "holds a LoRA adapter"),
        (["config.json", "model.gguf"], "a model in safetensors is needed"),
        (["onnx/model.safetensors"], "a model in safetensors is needed"),
    ],
)
def test_names_that_are_no_model(names, message):
    with pytest.raises(StudyError, match=message):
        check_names(names, "here")


def cut_weights(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-4])


def lfs_pointer(folder):  # what a clone without Git LFS leaves
    (folder / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n")


def foreign_code(folder):
    (folder / "config.json").write_text(json.dumps({"model_type": "mine", "auto_map": {"AutoModel": "modeling.Mine"}}))


def encoder(folder):
    (folder / "config.json").write_text(json.dumps({"model_type": "t5"}))


def broken_config(folder):
    (folder / "config.json").write_text("{")


def broken_tokenizer(folder):
    (folder / "tokenizer.json").write_text('{"version": "1.0"}')


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut_weights, "model.safetensors is truncated or broken"),
        (lfs_pointer, "model.safetensors is truncated or broken"),
        (foreign_code, "code from a repository is never run"),
        (encoder, "model_type t5 is no causal language model"),
        (broken_config, "config.json is not JSON"),
        (broken_tokenizer, "the tokenizer cannot be loaded"),
        (lambda folder: (folder / "config.json").unlink(), "has no config.json"),
        (lambda folder: (folder / "tokenizer_config.json").unlink(), "^copy: no tokenizer_config.json; save the token"),
    ],
)
def test_broken_models_are_refused_in_one_line(model_copy, damage, message):
    damage(model_copy)
    with pytest.raises(StudyError, match=message) as caught:
        check_model(model_copy, "copy")
    assert "\n" not in str(caught.value)


@pytest.fixture
def sharded(tiny_model, tmp_path):
    """The tiny model in several files, as large ones are saved."""
    from reward_ablation.models.load import load_model

    folder = shutil.copytree(tiny_model, tmp_path / "sharded")
    (folder / "model.safetensors").unlink()
    load_model(tiny_model).save_pretrained(folder, max_shard_size="5KB")
    return folder


def test_shards_are_counted_together(sharded, tiny_model):
    assert len(list(sharded.glob("model-*.safetensors"))) > 1
    assert check_model(sharded, "sharded") == check_model(tiny_model, "tiny")


def test_a_missing_shard_is_named(sharded):
    shard = sorted(sharded.glob("model-*.safetensors"))[-1]
    shard.unlink()
    with pytest.raises(StudyError, match=f"{shard.name} is named in model.safetensors.index.json and missing"):
        check_model(sharded, "sharded")


def test_a_shard_of_another_model_is_found(sharded):
    first, *_, last = sorted(sharded.glob("model-*.safetensors"))
    shutil.copyfile(first, last)
    with pytest.raises(StudyError, match=f"{last.name} has no tensor"):
        check_model(sharded, "sharded")


def test_a_key_twice_in_a_models_config_is_refused(tmp_path):
    (tmp_path / "model.safetensors").touch()
    (tmp_path / "config.json").write_text('{"model_type": "qwen2",\n"model_type": "llama"}')
    with pytest.raises(StudyError, match=r"^model: config.json is not JSON: line 2: key 'model_type' occurs twice"):
        check_model(tmp_path, "model")
