"""Checks that a folder is a model that the workflow can train: whole, in safetensors, without code of its own.

`fetch` and the supervised start check each model before it gets its place. The checks before a start look at the names
of its files only. Reward models have a check of their own here, which `fetch` calls.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from reward_ablation.models.generation_config import check_generation_config
from reward_ablation.models.prompt import COMPLETION, QUESTION, check_rendered, check_repeatable
from reward_ablation.models.verify import check_fetched
from reward_ablation.sampling.prompts import DATE, template_variables
from reward_ablation.sampling.tokenizer import GENERATION_CONFIG, load_tokenizer
from reward_ablation.system.errors import StudyError, first_line
from reward_ablation.system.files import sha256
from reward_ablation.system.git_lfs import refuse_lfs_pointer
from reward_ablation.system.limits import within_limits
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
READ_PADDING = frozenset(
    {
        *("bert-generation", "cpmant", "deepseek_v4", "doge", "minimax", "recurrent_gemma", "rwkv", "trocr", "whisper"),
        *("xlnet", "xlstm"),
    }
)
#: Seconds of processor time, and bytes of memory, for a trial. Models of all sizes take a few seconds and 1 GB.
SECONDS, MEMORY = 120, 8 * 2**30

#: A text with long runs, on which a regular expression backtracks if it can. Completions have such runs.
PROBE = " ".join(["What is 12 + 345?", *(character * 500 for character in "aA1 .\n'é数"), "!"])
#: Keys for the number of layers, and the most layers for each stored tensor. The layers of ALBERT share their weights.
_LAYERS, _LAYERS_PER_TENSOR = ("num_hidden_layers", "n_layer", "n_layers", "num_layers"), 10
#: Keys by which a config says that the weights are quantised.
_QUANTISED = ("quantization_config", "compression_config")
#: Most names of tensors in one message.
_NAMED = 3

Shapes = dict[str, list[int]]


def wanted(names: list[str]) -> list[str]:
    """The names that belong to a model, sorted. Beside a lone model.safetensors, vLLM would load other weights, too."""
    from huggingface_hub.utils import filter_repo_objects

    others = {name for name in names if name.endswith(".safetensors") and name != "model.safetensors"}
    left_out = others if "model.safetensors" in names and INDEX not in names else set()
    return sorted({*filter_repo_objects(names, allow_patterns=WANTED, ignore_patterns=UNWANTED)} - left_out)


def check_names(names: list[str], where: str) -> None:
    """Refuse by file names alone, before anything is copied, what cannot be a model in safetensors."""
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
    """Open every part of a model, without building it: its number of stored parameters (tied ones once), and class."""
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
    """Refuse a model of images or sounds, and one that TRL, by `architectures`, would build as another class."""
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
    """Open every part of a reward model, and refuse a causal language model, whose head would be random."""
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
    if "model.safetensors" in present and {*weight_map.values()} != {"model.safetensors"}:
        raise StudyError(
            f"{where}: has model.safetensors and also the files that {INDEX} names, and not all programs would load "
            "the same; take a folder with one of them, for example by save_pretrained"
        )
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


def try_model(folder: Path, where: str, auto_class: str, config: dict[str, Any], shapes: Shapes) -> None:
    """Compare a config with the stored weights, and try the tokenizer and its chat template."""
    import transformers

    _check_config(config, len(shapes), where)
    loader, _ = getattr(transformers, auto_class), transformers.AutoTokenizer  # imported before the forks
    weights = partial(_check_weights, folder, where, loader, shapes)
    within_limits(weights, SECONDS, MEMORY, f"{where}: a model of the sizes in config.json")
    tokenizer = partial(_try_tokenizer, folder, where, config, auto_class == "AutoModelForCausalLM")
    within_limits(tokenizer, SECONDS, MEMORY, f"{where}: the tokenizer or its chat template")


def _check_config(config: dict[str, Any], tensors: int, where: str) -> None:
    """Refuse a quantised model, and far more layers than tensors, before a class of transformers lists the layers."""
    text_config = config.get("text_config")
    for part in (config, text_config if isinstance(text_config, dict) else {}):
        if any(part.get(key) for key in _QUANTISED):
            raise StudyError(f"{where}: config.json says that the weights are quantized; take a copy that is not")
        for key in _LAYERS:
            layers = part.get(key, 0)
            if isinstance(layers, int | float) and layers > _LAYERS_PER_TENSOR * tensors:
                raise StudyError(f"{where}: config.json has {key} {layers}, but the weights have {tensors} tensors")


def _check_weights(folder: Path, where: str, loader: Any, shapes: Shapes) -> None:
    """Have transformers match stored and built tensors: it renames, splits, joins and ties some of them."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
        with torch.device("meta"):
            model = loader.from_config(config, trust_remote_code=False)
    except MemoryError:
        raise
    except Exception as error:
        raise StudyError(f"{where}: no model can be built from config.json: {first_line(error)}") from error
    try:
        stored = {name: torch.empty(shape, device="meta") for name, shape in shapes.items()}
        _, report = type(model).from_pretrained(
            None,
            config=model.config,
            state_dict=stored,
            device_map={"": "meta"},
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
    except MemoryError:
        raise
    except Exception as error:
        raise StudyError(
            f"{where}: the weights cannot be put together as the model that config.json describes; a part of a group "
            f"of tensors may be missing, such as an expert: {first_line(error)}"
        ) from error
    if loader is AutoModelForCausalLM:
        _check_head(model, where)
    report["unexpected_keys"] = [name for name in report["unexpected_keys"] if not _is_mask(name, shapes.get(name))]
    _check_report(report, where)
    for head, embedding in model.all_tied_weights_keys.items():
        if {head, embedding} <= shapes.keys() and _digest(folder, head) != _digest(folder, embedding):
            raise StudyError(
                f"{where}: config.json ties {head} to {embedding}, and the weights have different values for them; set "
                "tie_word_embeddings: false there, or store one of them"
            )


def _digest(folder: Path, name: str) -> str:
    """Digest of a stored tensor's type and bytes, read in pieces. Its file has been opened as a whole before."""
    index = folder / INDEX
    places = json.loads(index.read_text())["weight_map"] if index.is_file() else {}
    with (folder / places.get(name, "model.safetensors")).open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        tensor = json.loads(file.read(size))[name]
        start, end = tensor["data_offsets"]
        file.seek(8 + size + start)
        digest = hashlib.sha256(tensor["dtype"].encode())
        for place in range(start, end, 2**24):
            digest.update(file.read(min(2**24, end - place)))
    return digest.hexdigest()


def _check_head(model: Any, where: str) -> None:
    """Refuse a model with more between its last hidden state and its logits than the head that TRL trains through."""
    # TRL multiplies the last hidden state by the weight of the output embeddings, and scales and caps the logits. It
    # would train on the log-probabilities of another model.
    head = model.get_output_embeddings()
    used = {*model.base_model.modules(), *([] if head is None else head.modules())}
    others = [part for part in model.modules() if part not in used and [*part.parameters(recurse=False)]]
    divided = hasattr(model.config.get_text_config(), "logits_mup_width_multiplier")  # of Inkling
    if others or divided or model.base_model is model:
        raise StudyError(
            f"{where}: {type(model).__name__} computes its logits otherwise than by one matrix from the last hidden "
            "state, and TRL would train on other log-probabilities; take another model"
        )


def _is_mask(name: str, shape: list[int] | None) -> bool:
    """Whether a tensor is a causal mask, which GPT-2 and its kin once stored with their weights. A bias is a vector."""
    return name.endswith((".bias", ".masked_bias")) and shape is not None and (not shape or shape[:2] == [1, 1])


def _check_report(report: dict[str, Any], where: str) -> None:
    """Refuse tensors that transformers would draw at random, anew in each process, or would leave out."""
    for name, stored, built in sorted(report["mismatched_keys"]):
        shells = "; DeepSpeed's ZeRO-3 left it empty: gather the weights when saving" if 0 in stored else ""
        raise StudyError(
            f"{where}: config.json gives {name} the shape {list(built)}, and the weights {list(stored)}{shells}"
        )
    for key, problem in (
        ("missing_keys", "are missing, and random numbers would take their place"),
        ("unexpected_keys", "have no place in the model that config.json describes, and would be left out"),
    ):
        if names := sorted(report[key]):
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            raise StudyError(
                f"{where}: the weights {', '.join(names[:_NAMED])}{more} {problem}; correct config.json, or save the "
                "whole model again with save_pretrained"
            )


def _try_tokenizer(folder: Path, where: str, config: dict[str, Any], generates: bool) -> None:
    """Load a tokenizer, encode a text and a chat, and compare the tokens with the model's embedding."""
    try:
        tokenizer: Any = load_tokenizer(folder, where)
    except (StudyError, MemoryError):
        raise
    except BaseException as error:  # tokenizers raises bare Exception on a broken file, and panics with a BaseException
        raise StudyError(f"{where}: the tokenizer cannot be loaded: {first_line(error)}") from error
    encode = partial(tokenizer.encode, add_special_tokens=False)
    tokens = set(_use(partial(encode, PROBE), f"{where}: the tokenizer") or ())
    if not tokens - {tokenizer.unk_token_id}:
        raise StudyError(f"{where}: the tokenizer knows no word; its tokenizer.json, or vocabulary, may be missing")
    if tokenizer.chat_template:
        chat = [{"role": "user", "content": PROBE}]
        how = {"tokenize": False, **template_variables(DATE)}
        render = partial(tokenizer.apply_chat_template, chat, add_generation_prompt=True, **how)
        tokens |= set(encode(_use(render, f"{where}: the chat template") or ""))
        if not generates:  # a reward model reads a whole chat
            chat = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": COMPLETION}]
            judge = partial(tokenizer.apply_chat_template, chat, **how)
            judged = _use(judge, f"{where}: the chat template") or ""
            check_rendered(judged, {"question": QUESTION, "completion": COMPLETION}, where)
            check_repeatable(judge, tokenizer.get_chat_template(), where)
    if generates:
        if tokenizer.eos_token_id is None:  # trained and generated completions would never end
            raise StudyError(
                f"{where}: neither the tokenizer nor {GENERATION_CONFIG} names an end token; set eos_token in "
                "tokenizer_config.json"
            )
        tokens |= {tokenizer.pad_token_id, tokenizer.eos_token_id, tokenizer.bos_token_id} - {None}
    else:
        tokens |= set(tokenizer.get_vocab().values())  # as when the reward model is loaded
    _check_embedding(where, tokenizer, max(tokens), config)


def _check_embedding(where: str, tokenizer: Any, largest: int, config: dict[str, Any]) -> None:
    """Refuse a token without an embedding: on a GPU it would end the process. `largest` is the largest in use."""
    text_config = config.get("text_config")
    words = (text_config if isinstance(text_config, dict) else config).get("vocab_size")
    if isinstance(words, int) and largest >= words:
        raise StudyError(
            f"{where}: the token {tokenizer.convert_ids_to_tokens(largest)!r} of the tokenizer has number {largest}, "
            f"and the model has {words} embeddings; resize the model's embeddings and save the model again"
        )


def _use(call: Callable[[], Any], what: str) -> Any:
    """Result of a call, refusing what panics or is nested too deep; None if a template refuses a chat."""
    try:
        return call()
    except MemoryError:
        raise
    except (RecursionError, SyntaxError) as error:  # Python's own compiler of a template has a limit too
        raise StudyError(f"{what} is nested too deep") from error
    except Exception:
        return None
    except BaseException as error:
        raise StudyError(f"{what} fails on a long word: {first_line(error)}") from error
