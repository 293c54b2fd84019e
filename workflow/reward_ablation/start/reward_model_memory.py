"""GPU memory of the reward models that score a run, beside the memory that training takes."""

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
    """Bytes that a layer holds at once while a model reads inputs without gradients.

    By token: the stream between layers, its normalised copy and what sums them; a row of the mask; and either queries,
    keys and values (repeated to all heads), with what the rotation of positions makes on its way, or gate, its
    activation, up, and their product. A test compares this with what scoring on a CPU holds.

    Parameters
    ----------
    rows, length : int
        Inputs of a batch, and tokens of each.
    width : int
        Bytes of a number.
    """
    of_token = 4 * shape.hidden + length + max(8 * shape.query, 4 * shape.intermediate)
    return rows * length * width * of_token


def model_folder(study: Study, model: UsedModel) -> Path | None:
    """The folder of a reward model: the fetched one, else the local one; None before a hub model is fetched."""
    folder = (study.root / study.config.root / model.file).parent
    if not (folder / "config.json").is_file() and model.content:
        folder = study.root / model.parameters["model"]
    return folder if (folder / "config.json").is_file() else None


def reward_model_bytes(study: Study, run: Run, read_shape: Any) -> dict[str, float | None]:
    """Bytes of each reward model that scores a run on a GPU, by its component; None where not known yet.

    Components with the same parameters share a model, which counts for the first of them. `read_shape` gives the shape
    of a config.json, or None.
    """
    found: dict[str, float | None] = {}
    seen: set[RewardModelSettings] = set()
    for name, model in study.models_of_components(run).items():
        # What an environment variable says is not read while planning.
        written = {key: value for key, value in model.parameters.items() if not isinstance(value, dict)}
        settings = RewardModelSettings(**written)
        if settings in seen:
            continue
        seen.add(settings)
        folder = model_folder(study, model)
        found[name] = None if folder is None else _bytes(folder, settings, read_shape)
    return found


def _bytes(folder: Path, settings: RewardModelSettings, read_shape: Any) -> float | None:
    width = 4 if settings.dtype == "float32" else 2  # bfloat16 is the default on CUDA
    try:
        weights = stored_parameters(folder, str(folder)) * width
    except StudyError:  # told by the rule that fetches the model
        return None
    shape = read_shape(folder / "config.json")
    return weights + (scoring(shape, settings.batch_size, settings.max_length, width) if shape else 0)


def reward_model_lines(found: Iterable[dict[str, float | None]]) -> list[str]:
    """A line for each reward model, by its component, of what it takes in some runs."""
    of_component = {name: size for models in found for name, size in models.items()}
    return [
        f"GPU memory, reward model {name}: "
        + ("more than the above, known once the model is fetched" if size is None else f"{size / GIB:.1f} GiB of it")
        for name, size in of_component.items()
    ]
