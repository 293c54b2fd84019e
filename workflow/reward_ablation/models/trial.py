"""Try a model within limits of time and memory: the sizes in its config, its tokenizer and its chat template."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from reward_ablation.sampling.tokenizer import load_tokenizer
from reward_ablation.system.errors import StudyError, first_line
from reward_ablation.system.limits import within_limits

#: Seconds of processor time, and bytes of memory, for a trial. Models of all sizes take a few seconds and 1 GB.
SECONDS, MEMORY = 120, 8 * 2**30

#: A text with long runs, on which a regular expression backtracks if it can. Completions have such runs.
PROBE = " ".join(["What is 12 + 345?", *(character * 500 for character in "aA1 .\n'é数"), "!"])

#: Keys for the number of layers, and the most layers for each stored tensor. The layers of ALBERT share their weights.
_LAYERS, _LAYERS_PER_TENSOR = ("num_hidden_layers", "n_layer", "n_layers", "num_layers"), 10
#: Most parameters that quantised weights pack into one stored number: 16 of 2 bits in one of 32.
_PACKED = 16

Shapes = dict[str, list[int]]


def try_model(folder: Path, where: str, auto_class: str, config: dict[str, Any], shapes: Shapes) -> None:
    """Compare a config with the stored weights, and try the tokenizer and its chat template.

    Parameters
    ----------
    folder : Path
        Folder of the model.
    where : str
        What an error message calls the model.
    auto_class : str
        Name of the class of transformers that will load the model.
    config : dict
        Content of config.json.
    shapes : dict
        Shape of each stored tensor by name.

    Raises
    ------
    StudyError
        The config describes another model than the weights. Or the tokenizer is broken. Or one of them takes too much
        time or memory.
    """
    import transformers

    _check_layers(config, len(shapes), where)
    loader, _ = getattr(transformers, auto_class), transformers.AutoTokenizer  # imported before the forks
    sizes = partial(_check_sizes, folder, where, loader, shapes)
    within_limits(sizes, SECONDS, MEMORY, f"{where}: a model of the sizes in config.json")
    within_limits(
        partial(_try_tokenizer, folder, where), SECONDS, MEMORY, f"{where}: the tokenizer or its chat template"
    )


def _check_layers(config: dict[str, Any], tensors: int, where: str) -> None:
    """Refuse far more layers than tensors, before a class of transformers makes a list of the layers."""
    text_config = config.get("text_config")
    for part in (config, text_config if isinstance(text_config, dict) else {}):
        for key in _LAYERS:
            layers = part.get(key, 0)
            if isinstance(layers, int | float) and layers > _LAYERS_PER_TENSOR * tensors:
                raise StudyError(f"{where}: config.json has {key} {layers}, but the weights have {tensors} tensors")


def _check_sizes(folder: Path, where: str, loader: Any, shapes: Shapes) -> None:
    """Build the model without memory for its weights, and compare its parameters with the stored tensors.

    transformers renames, splits and joins some tensors when it loads them. So only equal names are compared, the shape
    of the embedding, which no model leaves out, and the sum.
    """
    import torch
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
        with torch.device("meta"):
            model = loader.from_config(config, trust_remote_code=False)
        built = {name: list(parameter.shape) for name, parameter in model.named_parameters()}
        embedding = [list(weight.shape) for weight in model.get_input_embeddings().parameters()][:1]
    except MemoryError:
        raise
    except Exception as error:
        raise StudyError(f"{where}: no model can be built from config.json: {first_line(error)}") from error
    number = sum(parameter.numel() for parameter in model.parameters())
    if number > _PACKED * sum(map(_elements, shapes.values())):
        raise StudyError(f"{where}: config.json describes {number} parameters, and the weights have far fewer")
    if getattr(config, "quantization_config", None):
        return
    for name, shape in built.items():
        if _elements(shapes.get(name, shape)) != _elements(shape):
            raise StudyError(f"{where}: config.json gives {name} the shape {shape}, and the weights {shapes[name]}")
    if embedding and embedding[0] not in shapes.values():
        raise StudyError(f"{where}: config.json gives the embedding the shape {embedding[0]}, which no weights have")


def _elements(shape: list[int]) -> int:
    """Number of elements of a tensor."""
    return math.prod(shape)


def _try_tokenizer(folder: Path, where: str) -> None:
    """Load a tokenizer, and encode a text and a chat."""
    try:
        tokenizer = load_tokenizer(folder, where)
    except (StudyError, MemoryError):
        raise
    except BaseException as error:  # tokenizers raises bare Exception on a broken file, and panics with a BaseException
        raise StudyError(f"{where}: the tokenizer cannot be loaded: {first_line(error)}") from error
    _use(partial(tokenizer.encode, PROBE), f"{where}: the tokenizer")
    if tokenizer.chat_template:
        chat = [{"role": "user", "content": PROBE}]
        _use(partial(tokenizer.apply_chat_template, chat, tokenize=False), f"{where}: the chat template")


def _use(call: Callable[[], object], what: str) -> None:
    """Refuse what panics or is nested too deep. Some tokenizers lack a token, and some templates refuse a chat."""
    try:
        call()
    except MemoryError:
        raise
    except (RecursionError, SyntaxError) as error:  # Python's own compiler of a template has a limit too
        raise StudyError(f"{what} is nested too deep") from error
    except Exception:
        return
    except BaseException as error:
        raise StudyError(f"{what} fails on a long word: {first_line(error)}") from error
