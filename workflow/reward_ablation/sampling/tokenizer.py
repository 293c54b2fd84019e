"""Load a model folder's tokenizer: never from the network, never foreign code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from reward_ablation.system.errors import StudyError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

#: The names under which transformers saves a tokenizer that is defined by tokenizer.json alone.
GENERIC_TOKENIZERS = {"PreTrainedTokenizerFast", "PreTrainedTokenizer", "TokenizersBackend"}


def load_tokenizer(folder: str | Path, where: str | None = None) -> PreTrainedTokenizerBase:
    """Tokenizer of a model folder, ready for batched generation.

    The tokenizer pads on the left, so that completions follow their prompt without a gap. Without a pad token of its
    own it pads with the end-of-text token. For qwen2, AutoTokenizer goes by the model type and replaces the
    pre-tokenizer of tokenizer.json, so a generic tokenizer is loaded by its own class.

    Raises
    ------
    StudyError
        There is no tokenizer here, or it has neither a pad nor an end-of-text token. The message calls the model
        `where`, by default the folder.
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
