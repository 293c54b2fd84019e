"""Load a model folder, or a LoRA adapter over one, and its tokenizer: never from the network, never foreign code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from reward_ablation.system.errors import StudyError

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

#: The names under which transformers saves a tokenizer that is defined by tokenizer.json alone.
GENERIC_TOKENIZERS = {"PreTrainedTokenizerFast", "PreTrainedTokenizer", "TokenizersBackend"}


def load_tokenizer(folder: str | Path, where: str | None = None) -> PreTrainedTokenizerBase:
    """Tokenizer of a model folder, ready for batched generation.

    AutoTokenizer goes by the model type for qwen2 and replaces the pre-tokenizer that is in
    tokenizer.json; a tokenizer that says it is generic is therefore loaded as just that.

    Parameters
    ----------
    folder : path
        Folder with tokenizer files.
    where : str, optional
        What an error message calls the model; default: the folder.

    Returns
    -------
    Tokenizer that pads on the left (completions follow their prompt without a gap); its pad token
    is the end-of-text token where it has none of its own.

    Raises
    ------
    StudyError
        There is no tokenizer here, or it has neither a pad nor an end-of-text token.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    folder = Path(folder)
    where = where or str(folder)
    settings = folder / "tokenizer_config.json"
    if not settings.is_file():
        raise StudyError(f"{where}: no tokenizer_config.json; save the tokenizer there too, by its save_pretrained")
    generic = json.loads(settings.read_text()).get("tokenizer_class") in GENERIC_TOKENIZERS
    loader = PreTrainedTokenizerFast if generic and (folder / "tokenizer.json").is_file() else AutoTokenizer
    tokenizer = loader.from_pretrained(folder, padding_side="left", trust_remote_code=False, local_files_only=True)
    if tokenizer.pad_token is None:
        if tokenizer.eos_token is None:
            raise StudyError(f"{where}: the tokenizer has no pad_token and no eos_token; set one in {settings.name}")
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def whole_model(folder: Path, base: Path | None) -> Path:
    """Folder of the whole model, whose tokenizer and end tokens count: the base under an adapter, else the model's.

    Raises
    ------
    StudyError
        An adapter without its base.
    """
    if not (folder / "adapter_config.json").is_file():
        return folder
    if base is None:
        raise StudyError(f"{folder}: holds a LoRA adapter; name its base model too (--base FOLDER)")
    return base


def load_model(
    folder: str | Path, dtype: str = "float32", base: str | Path | None = None
) -> PreTrainedModel | PeftModel:
    """Causal language model of a folder, in evaluation mode, on the CPU.

    Parameters
    ----------
    folder : path
        Folder with config.json and safetensors, or with a LoRA adapter (adapter_config.json).
    dtype : str
        Torch name of the weights' type, or "auto" for the one that they were saved in.
    base : path, optional
        Folder of the model under an adapter; the path recorded inside the adapter is not used,
        since folders move. Not read where `folder` holds a whole model.

    Returns
    -------
    The model; a PeftModel where `folder` holds an adapter.

    Raises
    ------
    StudyError
        Not a model folder, or an adapter without its base.
    """
    from transformers import AutoModelForCausalLM

    folder = Path(folder)
    whole = whole_model(folder, None if base is None else Path(base))
    if not (whole / "config.json").is_file():
        raise StudyError(f"{whole}: no config.json; not a model folder")
    model = AutoModelForCausalLM.from_pretrained(
        whole, dtype=dtype, use_safetensors=True, trust_remote_code=False, local_files_only=True
    )
    if whole == folder:
        return model.eval()
    from peft import PeftModel

    return PeftModel.from_pretrained(model, folder, is_trainable=False).eval()
