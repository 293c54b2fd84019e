"""Check that a folder is a model that the workflow can train: whole, in safetensors, without code of its own."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from reward_ablation.models.finite import check_fetched
from reward_ablation.models.generation_config import check_generation_config
from reward_ablation.models.trial import try_model
from reward_ablation.sampling.tokenizer import GENERATION_CONFIG
from reward_ablation.system.errors import StudyError, first_line
from reward_ablation.system.files import sha256
from reward_ablation.system.git_lfs import refuse_lfs_pointer
from reward_ablation.system.strict_text import load_json

#: What is taken from a repository or folder: weights, configs, tokenizer and chat template.
WANTED = ["*.safetensors", "*.json", "*.txt", "*.jinja", "*.model"]
#: What is left out: other folders hold other formats, consolidated* are the same weights again, and model.json is the
#: record that the workflow writes.
UNWANTED = ["*/*", "consolidated*", "model.json"]

INDEX = "model.safetensors.index.json"

#: Most bytes of a config or an index. The index of a model with 100,000 tensors has 10 MB.
LARGEST_JSON = 100_000_000


#: Types of models whose answers depend on the padding before a prompt, whatever positions are given. In a batch,
#: prompts are padded. `reads_padding` adds the encoders and the decoders of encoder-decoders that transformers lists.
READ_PADDING = frozenset({"bert-generation", "doge", "recurrent_gemma", "rwkv", "trocr", "whisper", "xlnet", "xlstm"})


def wanted(names: list[str]) -> list[str]:
    """The names that belong to a model, sorted."""
    from huggingface_hub.utils import filter_repo_objects

    return sorted(filter_repo_objects(names, allow_patterns=WANTED, ignore_patterns=UNWANTED))


def check_names(names: list[str], where: str) -> None:
    """Refuse by file names alone, before anything is copied, what cannot be a model in safetensors.

    Raises StudyError if there are only pickled weights, only an adapter, or no weights at all. Also raises it if a name
    has a line break, another control character, or bytes that are not UTF-8.
    """
    if unprintable := [name for name in wanted(names) if not name.isprintable()]:
        raise StudyError(f"{where}: {unprintable[0]!r}: a file of a model needs a printable name; rename or remove it")
    if "adapter_config.json" in names:
        raise StudyError(f"{where}: holds a LoRA adapter; merge it into its base model first")
    if any(name in names for name in ("model.safetensors", INDEX)):
        return
    pickled = sorted(name for name in names if name.endswith((".bin", ".pt", ".pth")))
    if pickled:
        raise StudyError(f"{where}: has pickled weights only ({pickled[0]}); save it with save_pretrained first")
    raise StudyError(f"{where}: has no model.safetensors and no {INDEX}; a model in safetensors is needed")


def _check_files(folder: Path, where: str) -> None:
    """Check the names of a folder's files, and refuse a Git LFS pointer in place of a file."""
    check_names([path.name for path in folder.iterdir()], where)
    for path in sorted(folder.iterdir()):
        if path.is_file():
            refuse_lfs_pointer(path, f"{where}: {path.name}")


def file_table(folder: Path) -> dict[str, dict[str, Any]]:
    """Size and SHA-256 of every file in a folder, by name."""
    names = sorted(path.name for path in folder.iterdir() if path.is_file())
    return {name: {"size": (folder / name).stat().st_size, "sha256": sha256(folder / name)} for name in names}


def check_model(folder: Path, where: str) -> tuple[int, str]:
    """Open every part of a model, without building the model, and read its weights for values that are not finite.

    `where` is what an error message calls the model. Returns the number of stored parameters (tied ones once), and the
    class that transformers will use.

    Raises StudyError if a file is missing or broken, if a weight is NaN or infinite, or if the architecture is not a
    causal language model of transformers itself. Also raises it for a model that reads padding.
    """
    _check_files(folder, where)
    config, shapes = _read_json(folder, "config.json", where), _shapes(folder, where)
    if (folder / GENERATION_CONFIG).is_file():
        _read_json(folder, GENERATION_CONFIG, where)
    model_type = str(config.get("model_type"))

    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CAUSAL

    if model_type not in CAUSAL:
        raise StudyError(
            f"{where}: model_type {model_type} is no causal language model of transformers; code from a "
            "repository is never run"
        )
    if reads_padding(model_type):
        raise StudyError(
            f"{where}: a model of type {model_type} answers otherwise when its prompt is padded, as in every batch of "
            "training and evaluation; take a causal language model with an attention mask"
        )
    _check_architecture(config, str(CAUSAL[model_type]), where)
    try_model(folder, where, "AutoModelForCausalLM", config, shapes)
    check_generation_config(folder, where)
    check_fetched(folder, where)
    return _count(shapes), str(CAUSAL[model_type])


def reads_padding(model_type: str) -> bool:
    """Whether a causal language model of this type takes the padding before a prompt for a part of it."""
    from transformers.models.auto import modeling_auto

    encoders = modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES.keys()
    halves = modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES.keys()
    return model_type in READ_PADDING | encoders | halves


def _check_architecture(config: dict[str, Any], causal: str, where: str) -> None:
    """Refuse a model of images or sounds, and one that TRL would build as another class than evaluation does.

    TRL takes the class in `architectures`, evaluation takes `causal`, the class by `model_type`.
    """
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES as MULTIMODAL

    written = config.get("architectures")
    name = str(written[0]) if isinstance(written, list) and written else "none"
    if causal in MULTIMODAL.values():
        raise StudyError(f"{where}: {causal} also reads images or sounds; take a model of text alone")
    if name == "none" or (name != causal and name in dir(transformers)):
        raise StudyError(
            f"{where}: config.json names the architecture {name}, and a language model of type {config['model_type']} "
            f"is a {causal}; save it as one"
        )


def check_sequence_classifier(folder: Path, where: str) -> tuple[int, str]:
    """Open every part of a reward model, as `check_model` does for a base model.

    A causal language model is refused: transformers would give it a head with random weights.
    """
    _check_files(folder, where)
    config, shapes = _read_json(folder, "config.json", where), _shapes(folder, where)

    from transformers.models.auto.modeling_auto import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES as CLASSIFIERS

    model_type, written = str(config.get("model_type")), config.get("architectures")
    architecture = str(written[0]) if isinstance(written, list) and written else "no architecture"
    if architecture != CLASSIFIERS.get(model_type):
        raise StudyError(
            f"{where}: holds {architecture}, and reward_model needs a sequence classifier of transformers, such as "
            "Qwen2ForSequenceClassification; code from a repository is never run"
        )
    try_model(folder, where, "AutoModelForSequenceClassification", config, shapes)
    check_fetched(folder, where)
    return _count(shapes), architecture


def _count(shapes: dict[str, list[int]]) -> int:
    """Number of elements of all tensors."""
    return sum(map(math.prod, shapes.values()))


def _shapes(folder: Path, where: str) -> dict[str, list[int]]:
    """Shape of each tensor by name. Every file of the index must exist and have its tensors."""
    if not (folder / INDEX).is_file():
        return _shapes_of(folder / "model.safetensors", where)
    weight_map = _read_json(folder, INDEX, where).get("weight_map")
    if not isinstance(weight_map, dict) or not all(_is_shard(name) for name in weight_map.values()):
        raise StudyError(f"{where}: weight_map in {INDEX} must give a .safetensors file of the folder for each tensor")
    present = {path.name for path in folder.iterdir()}
    missing = sorted(set(weight_map.values()) - present)
    if missing:
        raise StudyError(f"{where}: {missing[0]} is named in {INDEX} and missing")
    by_file = {name: _shapes_of(folder / name, where) for name in sorted(set(weight_map.values()))}
    for tensor, name in weight_map.items():
        if tensor not in by_file[name]:
            raise StudyError(f"{where}: {name} has no tensor {tensor}, which {INDEX} places there")
    return {tensor: by_file[name][tensor] for tensor, name in weight_map.items()}


def _is_shard(name: Any) -> bool:
    """Whether an entry of an index is the name of a safetensors file beside the index."""
    return isinstance(name, str) and name.endswith(".safetensors") and "/" not in name


def _shapes_of(path: Path, where: str) -> dict[str, list[int]]:
    from safetensors import SafetensorError, safe_open

    try:
        # Opening compares the header with the file's size. "np" avoids the import of torch.
        with safe_open(path, "np") as file:
            return {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise StudyError(f"{where}: {path.name} is truncated or broken: {first_line(error)}") from error


def _read_json(folder: Path, name: str, where: str) -> dict[str, Any]:
    """Content of a JSON file of a model."""
    try:
        if (size := (folder / name).stat().st_size) > LARGEST_JSON:
            raise StudyError(f"{where}: {name} has {size} bytes; more than {LARGEST_JSON} are no config")
        value = load_json((folder / name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StudyError(f"{where}: has no {name}; not a whole model") from None
    except StudyError:
        raise
    except ValueError as error:
        raise StudyError(f"{where}: {name} is not JSON: {first_line(error)}") from error
    if not isinstance(value, dict):
        raise StudyError(f"{where}: {name} holds no JSON object")
    return value
