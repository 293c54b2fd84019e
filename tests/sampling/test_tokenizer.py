"""The tokens of a model folder are those of its tokenizer.json, whatever class the folder names."""

import json

import pytest
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import AutoConfig, PreTrainedTokenizerFast

from reward_ablation.sampling.tokenizer import load_tokenizer

TEXT = "Weng earns $12 an hour.\nThe answer is 345"
TURN = "<s>[INST] Weng [/INST]"


def of_bytes():
    """A tokenizer of bytes, as of Llama 3, that keeps numbers whole."""
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(r" ?\p{L}+|\d+|[^\p{L}\d]"), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator([TEXT] * 9, trainers.BpeTrainer(special_tokens=["<s>"], initial_alphabet=alphabet))
    return tokenizer


def of_sentencepiece():
    """A tokenizer as of Llama 2, which also puts a space before the text after a special token."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    letters = list("▁[]/INST$\n0123456789.")
    tokenizer.train_from_iterator(
        [TEXT, "Weng"], trainers.BpeTrainer(special_tokens=["<unk>", "<s>"], initial_alphabet=letters)
    )
    return tokenizer


def saved(folder, tokenizer, kind, **settings):
    """A folder with this tokenizer.json, the config of a model type, and other settings in tokenizer_config.json."""
    own = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="<s>")
    own.save_pretrained(folder)
    AutoConfig.for_model(kind).save_pretrained(folder)
    file = folder / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))
    return own


@pytest.mark.parametrize(
    ("make", "kind", "settings"),
    [
        (of_bytes, "llama", {"tokenizer_class": "LlamaTokenizerFast", "legacy": True}),  # DeepSeek-R1-Distill-Llama
        (of_bytes, "exaone4", {"tokenizer_class": "GPT2Tokenizer"}),
        (of_bytes, "qwen2", {}),
        (of_sentencepiece, "mistral", {"tokenizer_class": "LlamaTokenizer", "legacy": False}),
    ],
)
def test_the_tokens_are_those_of_tokenizer_json_before_and_after_a_training(tmp_path, make, kind, settings):
    own = saved(tmp_path, make(), kind, **settings)
    loaded = load_tokenizer(tmp_path)
    loaded.save_pretrained(tmp_path / "trained")
    AutoConfig.for_model(kind).save_pretrained(tmp_path / "trained")
    for tokenizer in (loaded, load_tokenizer(tmp_path / "trained")):
        for text in (TEXT, TURN):
            tokens = own.encode(text, add_special_tokens=False)
            assert tokenizer.encode(text, add_special_tokens=False) == tokens
            assert tokenizer.decode(tokens) == own.decode(tokens)
        assert len(tokenizer) == len(own)  # a class of transformers may add tokens, which no embedding has
        assert (tokenizer.padding_side, tokenizer.pad_token) == ("left", "<s>")


def test_the_roles_that_a_class_gives_to_tokens_stay(tmp_path):
    saved(tmp_path, of_bytes(), "gpt2")
    tokenizer = json.loads((tmp_path / "tokenizer.json").read_text().replace("<s>", "<|endoftext|>"))
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    (tmp_path / "tokenizer_config.json").write_text('{"model_max_length": 1024}')  # all that GPT-2's says
    loaded = load_tokenizer(tmp_path)
    assert (loaded.eos_token_id, loaded.bos_token_id, loaded.pad_token_id) == (0, 0, 0)
    assert "token_type_ids" not in loaded(TEXT)


def test_of_several_chat_templates_the_default_is_saved_alone(tmp_path):
    templates = [{"name": name, "template": name + "{{ messages[0].content }}"} for name in ("tool_use", "default")]
    saved(tmp_path, of_bytes(), "qwen3", chat_template=templates, response_template={"fields": {}})
    loaded = load_tokenizer(tmp_path)
    assert loaded.response_template is None  # by which TRL would parse completions in training
    assert loaded.apply_chat_template([{"role": "user", "content": "?"}], tokenize=False) == "default?"
    loaded.save_pretrained(tmp_path / "trained")
    assert all(path.is_file() for path in (tmp_path / "trained").iterdir())
