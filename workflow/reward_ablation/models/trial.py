"""Try a model within limits of time and memory: the sizes in its config, its tokenizer and its chat template."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from reward_ablation.models.prompt import COMPLETION, QUESTION, check_rendered, check_repeatable
from reward_ablation.sampling.prompts import DATE, template_variables
from reward_ablation.sampling.tokenizer import GENERATION_CONFIG, load_tokenizer
from reward_ablation.system.errors import StudyError, first_line
from reward_ablation.system.limits import within_limits

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


def try_model(folder: Path, where: str, auto_class: str, config: dict[str, Any], shapes: Shapes) -> None:
    """Compare a config with the stored weights, and try the tokenizer and its chat template.

    `where` is what an error message calls the model. `auto_class` names the class of transformers that will load it.
    `config` is the content of config.json, and `shapes` has the shape of each stored tensor by name.

    Raises StudyError if the config describes another model than the weights, if the tokenizer is broken, or if one of
    them takes too much time or memory.
    """
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
    """Have transformers match the stored tensors with the model's, without memory for either.

    transformers renames, splits and joins some tensors when it loads them, and ties others. So its report counts.
    """
    import torch
    from transformers import AutoConfig

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
    report["unexpected_keys"] = [name for name in report["unexpected_keys"] if not _is_mask(name, shapes.get(name))]
    _check_report(report, where)


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
        if not generates:
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
