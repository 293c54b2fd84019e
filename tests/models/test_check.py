"""Folders that are refused as models, and the messages."""

import json
import os
import shutil
from contextlib import nullcontext

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedTokenizerFast

from reward_ablation.models.check import check_model, check_names, wanted
from reward_ablation.sampling.tokenizer import load_tokenizer
from reward_ablation.system.errors import StudyError


def test_counts_parameters_and_names_the_class(tiny_model):
    # embedding 270·8, attention 4·64 + 3·8, MLP 3·128, norms 3·8; the tied head is not stored again
    assert check_model(tiny_model, "tiny") == (270 * 8 + 4 * 64 + 3 * 8 + 3 * 128 + 3 * 8, "Qwen2ForCausalLM")


def test_only_the_files_of_a_model_are_taken():
    names = ["model.safetensors", "config.json", "merges.txt", "chat_template.jinja", "spiece.model"]
    others = ["model.json", "pytorch_model.bin", "modeling_x.py", "onnx/model.safetensors", "consolidated.safetensors"]
    assert wanted([*names, *others, "model.fp16.safetensors"]) == sorted(names)  # vLLM would load both weights
    shards = ["model-1-of-2.safetensors", "model-2-of-2.safetensors", "model.safetensors.index.json"]
    assert wanted(shards) == shards
    for refused, message in [
        (["config.json", "pytorch_model.bin"], "has pickled weights only"),
        (["adapter_config.json", "adapter_model.safetensors"], "holds a LoRA adapter"),
        (["config.json", "model.gguf"], "a model in safetensors is needed"),
    ]:
        with pytest.raises(StudyError, match=message):
            check_names(refused, "here")


def cut(name, size):
    """A damage by which a file ends at this size, or lacks so many of its last bytes."""
    return lambda folder: os.truncate(folder / name, size if size > 0 else (folder / name).stat().st_size + size)


def backtracking(folder):
    """The tokenizer's regular expression takes exponential time on some texts."""
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["pre_tokenizer"]["pretokenizers"][0]["pattern"] = {"Regex": "(a|aa)+$"}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))


def written(name, content):
    """A damage, or none: another content of a file, as text or as JSON."""
    text = content if isinstance(content, str) else json.dumps(content)
    return lambda folder: (folder / name).write_text(text)


def removed(name):
    return lambda folder: (folder / name).unlink()


def config(**entries):
    """A damage that changes entries of config.json."""
    return lambda folder: written("config.json", {**json.loads((folder / "config.json").read_text()), **entries})(
        folder
    )


def generating(**settings):
    return written("generation_config.json", settings)


#: What a clone without Git LFS leaves; and lists that are nested too deep for a reader that recurses.
LFS_POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"
DEEP = '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}"
GATE = "model.layers.0.mlp.gate_proj.weight"
HEAD, EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"
INDEX = "model.safetensors.index.json"


def endless(named=None):
    """A damage that names the end token nowhere, or only where models are told how to generate."""

    def change(folder):
        plain = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), pad_token="1")
        plain.save_pretrained(folder)
        generating(eos_token_id=named)(folder)

    return change


def added(token, name=None, template=None):
    """A damage that adds a token, perhaps with a role or in the template, which the model has no embedding for."""

    def change(folder):
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
        spare = [f"<spare {number}>" for number in range(len(tokenizer), 270)]
        tokenizer.add_tokens([*spare, token], special_tokens=True)
        if name:
            setattr(tokenizer, name, token)
        tokenizer.chat_template = template
        tokenizer.save_pretrained(folder)

    return change


def rewritten(change):
    """A damage of the weights: `change` makes other tensors, by name, from the tensors."""

    def damage(folder):
        weights = load_file(folder / "model.safetensors")
        save_file(change(weights), folder / "model.safetensors", {"format": "pt"})

    return damage


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut("model.safetensors", -4), "model.safetensors is truncated or broken"),
        (written("model.safetensors", LFS_POINTER), "model.safetensors: is a Git LFS pointer, .*`git lfs pull`"),
        (config(auto_map={"AutoModel": "modeling.Mine"}, model_type="mine"), "code from a repository is never run"),
        (config(model_type="bert"), "a model of type bert answers otherwise when its prompt is padded"),
        (config(hidden_size=2**30), r"gives .*embed_tokens.weight the shape \[270, 1073741824\], and the weights"),
        (config(num_hidden_layers=10**9), "has num_hidden_layers 1000000000, but the weights have 14 ten"),
        (config(model_type="gemma3", architectures=["Gemma3ForConditionalGeneration"]), "Gemma3ForConditionalGenerati"),
        (config(architectures=["Qwen2ForSequenceClassification"]), "and a .* type qwen2 is a Qwen2ForCausalLM"),
        (config(tie_word_embeddings=False), "^copy: the weights lm_head.weight are missing, and random"),
        (
            config(model_type="llama", architectures=["LlamaForCausalLM"]),
            r"weights model.layers.0.self_attn.k_proj.bias, .* have no place",
        ),
        (  # as of a model that was saved under ZeRO-3 without gathering its weights
            rewritten(lambda weights: {**weights, GATE: weights[GATE].new_empty(0)}),
            r"gives .* the shape \[16, 8\], and the weights \[0\]; DeepSpeed's ZeRO-3 left it empty: gather the",
        ),
        (
            rewritten(lambda weights: {**weights, HEAD: weights[EMBEDDING] + 1}),
            "config.json ties lm_head.weight to model.embed_tokens.weight, and the weights have different values for",
        ),
        (
            rewritten(lambda weights: {**weights, GATE: weights[GATE] / 0}),
            f"^copy: the tensor {GATE} has values that are NaN or infinite",
        ),
        (config(quantization_config={"quant_method": "fp8"}), "says that the weights are quantized; take"),
        (removed("tokenizer.json"), "^copy: the tokenizer knows no word; .* may be missing"),
        (endless(), "neither the tokenizer nor generation_config.json names an end token; set eos_token in tokenizer_"),
        (endless([999]), "generation_config.json names the end token 999, and the tokenizer has no such token$"),
        (generating(eos_token_id="<end>"), "eos_token_id .* must be numbers of tokens, not '<end>'"),
        (generating(max_new_tokens=-1), "transformers cannot use generation_config.json: `max_new_tokens` must be"),
        (added("<new>", "pad_token"), "token '<new>' .* number 270, and the model has 270 embeddings; resize"),
        (  # a base model with the tokenizer of its chat model
            added("<turn>", template="<turn>{{ messages[0].content }}"),
            "token '<turn>' of the tokenizer has number 270, and the model has 270 embeddings",
        ),
        (written("config.json", DEEP), "config.json is not JSON: lists and objects are nested too deep"),
        (cut("config.json", 2**40), "config.json has 1099511627776 bytes"),
        (backtracking, "the tokenizer fails on a long word: Onig: Regex search error: retry-limit"),
        (written("chat_template.jinja", "{{ 'a' * 10 ** 12 }}"), "takes more than 8 GiB of memory"),
        (written("chat_template.jinja", "{{ " + "(" * 5000 + ")" * 5000 + " }}"), "template is nested too deep"),
        (written(INDEX, {"weight_map": {"a": "../../model.safetensors"}}), "must give a .safetensors file of the"),
        (removed("config.json"), "has no config.json"),
        (removed("tokenizer_config.json"), "^copy: no tokenizer_config.json; save the token"),
    ],
)
def test_broken_models_are_refused_in_one_line(model_copy, damage, message):
    damage(model_copy)
    with pytest.raises(StudyError, match=message) as caught:
        check_model(model_copy, "copy")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("lost", "message"),
    [
        (None, None),  # transformers joins the experts' tensors under other names
        (".experts.1.up_proj.", "cannot be put together as the model that config.json describes"),
        (".experts.3.", r"gives .*experts.down_proj the shape \[4, 8, 16\], and the weights \[3, 8, 16\]"),
    ],
)
def test_tensors_that_transformers_joins_are_counted_by_its_own_rules(model_copy, lost, message):
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2}
    experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
    Qwen3MoeForCausalLM(Qwen3MoeConfig(vocab_size=270, **sizes, **experts)).save_pretrained(model_copy)
    if lost:
        rewritten(lambda weights: {name: each for name, each in weights.items() if lost not in name})(model_copy)
    with pytest.raises(StudyError, match=message) if message else nullcontext():
        check_model(model_copy, "copy")


def test_a_head_of_several_layers_is_refused(model_copy):
    from transformers import ModernBertDecoderConfig, ModernBertDecoderForCausalLM

    sizes = {"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    tokens = dict.fromkeys(("pad", "eos", "bos", "cls", "sep"), 0)
    named = {f"{name}_token_id": token for name, token in tokens.items()}
    ModernBertDecoderForCausalLM(ModernBertDecoderConfig(vocab_size=270, **sizes, **named)).save_pretrained(model_copy)
    with pytest.raises(StudyError, match="ModernBertDecoderForCausalLM computes its logits otherwise than by"):
        check_model(model_copy, "copy")


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
    first, *_, last = sorted(sharded.glob("model-*.safetensors"))
    shutil.copy(tiny_model / "model.safetensors", sharded)
    with pytest.raises(StudyError, match=r"has model.safetensors and also the files that model.safetensors.index.json"):
        check_model(sharded, "sharded")
    (sharded / "model.safetensors").unlink()
    shutil.copyfile(first, last)
    with pytest.raises(StudyError, match=f"{last.name} has no tensor"):
        check_model(sharded, "sharded")
    last.unlink()
    with pytest.raises(StudyError, match=f"{last.name} is named in model.safetensors.index.json and missing"):
        check_model(sharded, "sharded")


def test_an_end_token_that_only_the_generation_config_names_is_the_tokenizers_own(model_copy):
    before = load_tokenizer(model_copy)
    endless([0, 5])(model_copy)
    check_model(model_copy, "copy")
    tokenizer = load_tokenizer(model_copy)
    assert (tokenizer.eos_token, tokenizer.eos_token_id, tokenizer.pad_token) == ("<end>", 0, "1")
    assert len(tokenizer) == len(before)
    assert tokenizer.decode([9, 0], skip_special_tokens=True) == before.decode([9], skip_special_tokens=True)


def test_tensors_that_need_no_place_of_their_own(model_copy):
    """Masks that old checkpoints store, a tied head that is stored again, and a spare token that no prompt has."""
    masks = {"bias": torch.ones(1, 1, 4, 4, dtype=torch.uint8), "masked_bias": torch.tensor(-1e9)}
    stored = {f"model.layers.0.self_attn.{name}": mask for name, mask in masks.items()}
    rewritten(lambda weights: {**weights, **stored, HEAD: weights[EMBEDDING].clone()})(model_copy)
    added("<spare>")(model_copy)
    assert check_model(model_copy, "copy")[1] == "Qwen2ForCausalLM"


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"no_repeat_ngram_size": 2, "num_beams": 4}, "no_repeat_ngram_size: 2, num_beams: 4"),
        ({"suppress_tokens": list(range(99))}, "suppress_tokens: [0, 1, 2, 3, 4, 5, ...]"),
        ({"temperature": 0.6, "top_k": 20, "do_sample": True, "repetition_penalty": 1.1}, None),  # the study's
        ({"min_length": 0, "bad_words_ids": [], "use_cache": False, "chat_format": "chatml"}, None),
    ],
)
def test_what_a_generation_config_asks_for_in_vain_is_told(model_copy, capsys, settings, line):
    generating(**settings)(model_copy)
    check_model(model_copy, "copy")
    told = f"warning: copy: the model's generation_config.json asks for {line}; training and evaluation do not do so\n"
    assert capsys.readouterr().out == (told if line else "")
