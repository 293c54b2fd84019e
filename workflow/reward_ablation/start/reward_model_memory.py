"""GPU memory that a run's reward models take in addition to training."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from reward_ablation.models.check import stored_parameters
from reward_ablation.rewards.components.reward_model import RewardModelSettings
from reward_ablation.start.memory_terms import Shape
from reward_ablation.study.reward_models import UsedModel
from reward_ablation.study.study import Run, Study
from reward_ablation.system.errors import StudyError

GIB = 2**30


def scoring(shape: Shape, rows: int, length: int, width: int) -> float:
    """Bytes that one layer holds at most while a model reads inputs without gradients.

    For each token these are four vectors of the hidden size (the stream between layers, its normalised copy, and their
    sums), a row of the mask, and the larger of two: the attention's queries, keys and values (repeated to all heads)
    with the intermediate values of the rotation of positions; or the MLP's gate, its activation, up, and their product.
    A test compares the estimate with the memory of scoring on a CPU.

    Parameters
    ----------
    shape : Shape
        The reward model's shape.
    rows, length : int
        Number of inputs in a batch, and number of tokens of each input.
    width : int
        Bytes of one number.
    """
    of_token = 4 * shape.hidden + length + max(8 * shape.query, 4 * shape.intermediate)
    return rows * length * width * of_token


def model_folder(study: Study, model: UsedModel) -> Path | None:
    """The folder of a reward model: the fetched copy, else the local folder; None before a hub model is fetched."""
    folder = (study.root / study.config.root / model.file).parent
    if not (folder / "config.json").is_file() and model.content:
        folder = study.root / model.parameters["model"]
    return folder if (folder / "config.json").is_file() else None


def reward_model_bytes(study: Study, run: Run, read_shape: Any) -> dict[str, float | None]:
    """GPU bytes of each reward model that scores a run, by component; None where not known yet.

    Components with the same parameters share a model, which counts for the first of them. `read_shape` returns the
    shape that a config.json describes, or None.
    """
    sizes: dict[str, float | None] = {}
    seen: set[RewardModelSettings] = set()
    for name, model in study.models_of_components(run).items():
        # A mapping names an environment variable, which is not read while planning.
        literal = {key: value for key, value in model.parameters.items() if not isinstance(value, dict)}
        settings = RewardModelSettings(**literal)
        if settings in seen:
            continue
        seen.add(settings)
        folder = model_folder(study, model)
        sizes[name] = None if folder is None else _bytes(folder, settings, read_shape)
    return sizes


def _bytes(folder: Path, settings: RewardModelSettings, read_shape: Any) -> float | None:
    width = 4 if settings.dtype == "float32" else 2  # bfloat16 is the default on CUDA
    try:
        weights = stored_parameters(folder, str(folder)) * width
    except StudyError:  # the rule that fetches the model reports the error
        return None
    shape = read_shape(folder / "config.json")
    return weights + (scoring(shape, settings.batch_size, settings.max_length, width) if shape else 0)


def reward_model_lines(sizes_by_run: Iterable[dict[str, float | None]]) -> list[str]:
    """A line for each reward model, with its component and its GPU memory, over several runs."""
    size_by_component = {name: size for sizes in sizes_by_run for name, size in sizes.items()}
    unknown = "in addition to the above, known once the model is fetched"
    return [
        f"GPU memory, reward model {name}: {unknown if size is None else f'{size / GIB:.1f} GiB of it'}"
        for name, size in size_by_component.items()
    ]
