"""Check that a folder is a model that the workflow can train: whole, in safetensors, without code of its own."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from reward_ablation.models.finite import check_fetched
from reward_ablation.sampling.tokenizer import load_tokenizer
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import sha256

#: What is taken from a repository or folder: weights, configs, tokenizer and chat template.
WANTED = ["*.safetensors", "*.json", "*.txt", "*.jinja", "*.model"]
#: What is left out: other folders hold other formats, consolidated* are the same weights again, and model.json is the
#: record that the workflow writes.
UNWANTED = ["*/*", "consolidated*", "model.json"]

INDEX = "model.safetensors.index.json"


def wanted(names: list[str]) -> list[str]:
    """The names that belong to a model, sorted."""
    from huggingface_hub.utils import filter_repo_objects

    return sorted(filter_repo_objects(names, allow_patterns=WANTED, ignore_patterns=UNWANTED))


def check_names(names: list[str], where: str) -> None:
    """Refuse by file names alone, before anything is copied, what cannot be a model in safetensors.

    Raises
    ------
    StudyError
        There are only pickled weights, only an adapter, or no weights at all.
    """
    if "adapter_config.json" in names:
        raise StudyError(f"{where}: holds a LoRA adapter; merge it into its base model first")
    if any(name in names for name in ("model.safetensors", INDEX)):
        return
    pickled = sorted(name for name in names if name.endswith((".bin", ".pt", ".pth")))
    if pickled:
        raise StudyError(f"{where}: has pickled weights only ({pickled[0]}); save it with save_pretrained first")
    raise StudyError(f"{where}: has no model.safetensors and no {INDEX}; a model in safetensors is needed")


def file_table(folder: Path) -> dict[str, dict[str, Any]]:
    """Size and SHA-256 of every file in a folder, by name."""
    names = sorted(path.name for path in folder.iterdir() if path.is_file())
    return {name: {"size": (folder / name).stat().st_size, "sha256": sha256(folder / name)} for name in names}


def check_model(folder: Path, where: str) -> tuple[int, str]:
    """Open every part of a model, without building the model, and read its weights for values that are not finite.

    Parameters
    ----------
    folder : Path
        Folder of the model.
    where : str
        What an error message calls the model.

    Returns
    -------
    Number of stored parameters (tied ones once), and the class that transformers will use.

    Raises
    ------
    StudyError
        A file is missing or broken, a weight is NaN or infinite, or the architecture is not a causal language model of
        transformers itself.
    """
    check_names([path.name for path in folder.iterdir()], where)
    model_type = str(_read_json(folder, "config.json", where).get("model_type"))
    parameters = stored_parameters(folder, where)

    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CAUSAL

    if model_type not in CAUSAL:
        raise StudyError(
            f"{where}: model_type {model_type} is no causal language model of transformers; code from a "
            "repository is never run"
        )
    _check_tokenizer(folder, where)
    check_fetched(folder, where)
    return parameters, str(CAUSAL[model_type])


def check_sequence_classifier(folder: Path, where: str) -> tuple[int, str]:
    """Open every part of a reward model, as `check_model` does for a base model.

    A causal language model is refused: transformers would give it a head with random weights.
    """
    check_names([path.name for path in folder.iterdir()], where)
    config = _read_json(folder, "config.json", where)
    parameters = stored_parameters(folder, where)

    from transformers.models.auto.modeling_auto import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES as CLASSIFIERS

    model_type, written = str(config.get("model_type")), config.get("architectures")
    architecture = str(written[0]) if isinstance(written, list) and written else "no architecture"
    if architecture != CLASSIFIERS.get(model_type):
        raise StudyError(
            f"{where}: holds {architecture}, and reward_model needs a sequence classifier of transformers, such as "
            "Qwen2ForSequenceClassification; code from a repository is never run"
        )
    _check_tokenizer(folder, where)
    check_fetched(folder, where)
    return parameters, architecture


def _check_tokenizer(folder: Path, where: str) -> None:
    try:
        load_tokenizer(folder, where)
    except StudyError:
        raise
    except Exception as error:  # tokenizers raises bare Exception on a broken file
        raise StudyError(f"{where}: the tokenizer cannot be loaded: {first_line(error)}") from error


def stored_parameters(folder: Path, where: str) -> int:
    """Number of parameters in the safetensors files of a model's folder; a StudyError if a file is broken."""
    return sum(math.prod(shape) for shape in _shapes(folder, where).values())


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or the error's name if there is no message."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _shapes(folder: Path, where: str) -> dict[str, list[int]]:
    """Shape of each tensor by name. Every file of the index must exist and have its tensors."""
    if not (folder / INDEX).is_file():
        return _shapes_of(folder / "model.safetensors", where)
    weight_map = _read_json(folder, INDEX, where).get("weight_map") or {}
    present = {path.name for path in folder.iterdir()}
    missing = sorted(set(weight_map.values()) - present)
    if missing:
        raise StudyError(f"{where}: {missing[0]} is named in {INDEX} and missing")
    by_file = {name: _shapes_of(folder / name, where) for name in sorted(set(weight_map.values()))}
    for tensor, name in weight_map.items():
        if tensor not in by_file[name]:
            raise StudyError(f"{where}: {name} has no tensor {tensor}, which {INDEX} places there")
    return {tensor: by_file[name][tensor] for tensor, name in weight_map.items()}


def _shapes_of(path: Path, where: str) -> dict[str, list[int]]:
    from safetensors import SafetensorError, safe_open

    try:
        # Opening compares the header with the file's size. "np" avoids the import of torch.
        with safe_open(path, "np") as file:
            return {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise StudyError(f"{where}: {path.name} is truncated or broken: {first_line(error)}") from error


def _read_json(folder: Path, name: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads((folder / name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StudyError(f"{where}: has no {name}; not a whole model") from None
    except ValueError as error:
        raise StudyError(f"{where}: {name} is not JSON: {first_line(error)}") from error
    if not isinstance(value, dict):
        raise StudyError(f"{where}: {name} holds no JSON object")
    return value
