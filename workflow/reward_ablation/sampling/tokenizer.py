"""The tokenizer of a model folder, loaded without the network and without code from the folder.

Training, evaluation, the supervised start and reward models load theirs here, and so do the checks of a model before.
All of them thus agree on the tokens that pad and end a text.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reward_ablation.system.errors import StudyError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

#: The names under which transformers saves a tokenizer that is defined by tokenizer.json alone.
GENERIC_TOKENIZERS = {"PreTrainedTokenizerFast", "PreTrainedTokenizer", "TokenizersBackend"}
GENERATION_CONFIG = "generation_config.json"


def load_tokenizer(folder: str | Path, where: str | None = None) -> PreTrainedTokenizerBase:
    """Tokenizer of a model folder, which pads on the left, so that completions follow their prompt without a gap."""
    # Where there is a tokenizer.json, it alone says how texts are cut into tokens, before and after a training. Classes
    # of transformers would put their own rules in its place, by the name of a class or the model type: LlamaTokenizer
    # drops the spaces of a byte-level tokenizer. Of such a class only the roles of tokens are taken. The end token may
    # come from generation_config.json, and the pad token from the end token.
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    folder = Path(folder)
    where = where or str(folder)
    settings = folder / "tokenizer_config.json"
    if not settings.is_file():
        raise StudyError(f"{where}: no tokenizer_config.json; save the tokenizer there too, with its save_pretrained")
    how: dict[str, Any] = {"padding_side": "left", "trust_remote_code": False, "local_files_only": True}
    defined = folder / "tokenizer.json"
    generic = json.loads(settings.read_text()).get("tokenizer_class") in GENERIC_TOKENIZERS
    if not (generic and defined.is_file()):
        tokenizer = AutoTokenizer.from_pretrained(folder, **how)
        how |= _of_class(tokenizer, defined) if defined.is_file() else {}
    if defined.is_file():
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder, **how)
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
    # Of several templates the default is used. Together they would be saved in a folder, which no model here has.
    if isinstance(tokenizer.chat_template, dict):
        tokenizer.chat_template = tokenizer.chat_template.get("default", tokenizer.chat_template)
    # TRL would parse completions by it, and reward another text than evaluation grades: one without the reasoning.
    tokenizer.response_template = None
    return tokenizer


def _of_class(tokenizer: PreTrainedTokenizerBase, defined: Path) -> dict[str, Any]:
    """What a class of transformers says of the tokens in tokenizer.json: their roles, and the inputs of its models."""
    from tokenizers import Tokenizer

    vocabulary: Any = Tokenizer.from_file(str(defined))
    roles = {
        role: token
        for role, token in tokenizer.special_tokens_map.items()
        if isinstance(token, str) and vocabulary.token_to_id(token) is not None
    }
    return {**roles, "model_input_names": tokenizer.model_input_names}


def _named_end(folder: Path) -> int | None:
    """The first end token that a folder's generation_config.json names."""
    file = folder / GENERATION_CONFIG
    named = json.loads(file.read_text()).get("eos_token_id") if file.is_file() else None
    return next(iter(named), None) if isinstance(named, list) else named
