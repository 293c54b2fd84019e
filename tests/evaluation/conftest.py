"""A tiny Qwen2 model with random weights and a character tokenizer. It ends about every second completion."""

from pathlib import Path

import pandas as pd
import pytest

from reward_ablation.system.files import sha256, write_json

CHARACTERS = "0123456789+-= #abcdefghijklmnopqrstuvwxyz\n"
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] + '=' + message['content'] + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant=' }}{% endif %}"
)


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory) -> Path:
    import torch
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    folder = tmp_path_factory.mktemp("tiny")
    vocabulary = {token: index for index, token in enumerate(["<unk>", "<end>", *CHARACTERS])}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))
    backend.decoder = decoders.Fuse()  # without it, a blank between any two tokens
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<end>", unk_token="<unk>")
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(vocabulary),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            initializer_range=0.3,  # large: the next token depends on the text before it
            eos_token_id=tokenizer.eos_token_id,
            bos_token_id=None,
        )
    )
    # What models ship and evaluation must not use: sampling fields, and a penalty that bends greedy search.
    model.generation_config.update(do_sample=True, temperature=0.1, top_k=2, top_p=0.5, repetition_penalty=5.0)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tokenizer(model_folder):
    from reward_ablation.sampling.tokenizer import load_tokenizer

    return load_tokenizer(model_folder)


@pytest.fixture(scope="session")
def model(model_folder):
    from reward_ablation.models.load import load_model

    return load_model(model_folder)


def record_run(folder: Path, **more) -> None:
    """Write the record of a run, with the digests of its models."""
    files = {str(path.relative_to(folder)): sha256(path) for path in folder.rglob("*/*") if path.is_file()}
    write_json({"files": files, **more}, folder / "run.json")


@pytest.fixture(scope="session")
def problems() -> pd.DataFrame:
    """Seven questions of different lengths, not in order of length."""
    questions = ["1 + 2", "a longer one = 3", "7", "what is 12 - 4", "2 + 2 = 4", "x" * 40, "abc"]
    return pd.DataFrame({"id": [f"p-{index}" for index in range(7)], "question": questions, "answer": list("3378444")})


@pytest.fixture(scope="session")
def problems_file(problems, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("problems") / "problems.parquet"
    problems.to_parquet(path)
    return path
