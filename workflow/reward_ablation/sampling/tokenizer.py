"""The tokenizer of a model folder, loaded without the network and without code from the folder.

Training, evaluation, the supervised start and reward models load theirs here, and so do the checks of a model before.
All of them thus agree on the tokens that pad and end a text.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from reward_ablation.system.errors import StudyError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

#: The names under which transformers saves a tokenizer that is defined by tokenizer.json alone.
GENERIC_TOKENIZERS = {"PreTrainedTokenizerFast", "PreTrainedTokenizer", "TokenizersBackend"}
GENERATION_CONFIG = "generation_config.json"


def load_tokenizer(folder: str | Path, where: str | None = None) -> PreTrainedTokenizerBase:
    """Tokenizer of a model folder, ready for batched generation.

    The tokenizer pads on the left, so that completions follow their prompt without a gap. A tokenizer without an
    end-of-text token gets the first end token that generation_config.json names. A tokenizer without a pad token pads
    with the end-of-text token. For the model type qwen2, AutoTokenizer replaces the pre-tokenizer of tokenizer.json. A
    generic tokenizer is therefore loaded by its own class.

    `where` names the model in error messages, by default the folder. Raises StudyError if the folder has no tokenizer,
    if the tokenizer has neither a pad token nor an end-of-text token, or if it does not have the end token that
    generation_config.json names.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    folder = Path(folder)
    where = where or str(folder)
    settings = folder / "tokenizer_config.json"
    if not settings.is_file():
        raise StudyError(f"{where}: no tokenizer_config.json; save the tokenizer there too, with its save_pretrained")
    generic = json.loads(settings.read_text()).get("tokenizer_class") in GENERIC_TOKENIZERS
    loader = PreTrainedTokenizerFast if generic and (folder / "tokenizer.json").is_file() else AutoTokenizer
    tokenizer = loader.from_pretrained(folder, padding_side="left", trust_remote_code=False, local_files_only=True)
    if tokenizer.eos_token is None and (end := _named_end(folder)) is not None:
        token = tokenizer.convert_ids_to_tokens(end)
        if token is None:
            raise StudyError(
                f"{where}: {GENERATION_CONFIG} names the end token {end}, and the tokenizer has no such token"
            )
        tokenizer.add_special_tokens({"eos_token": token})
    if tokenizer.pad_token is None:
        if tokenizer.eos_token is None:
            raise StudyError(f"{where}: the tokenizer has no pad_token and no eos_token; set one in {settings.name}")
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def _named_end(folder: Path) -> int | None:
    """The first end token that a folder's generation_config.json names."""
    file = folder / GENERATION_CONFIG
    named = json.loads(file.read_text()).get("eos_token_id") if file.is_file() else None
    return next(iter(named), None) if isinstance(named, list) else named
