"""What a model's generation_config.json decides here: the tokens that end a completion, and nothing else.

Temperature, top-p, top-k, min-p and repetition penalty are the study's, in training and evaluation, with each backend.
Evaluation reads the file here, and training hides it from `generate`. `models.generation_config` names the settings in
the file that nothing uses.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from transformers import GenerationConfig


def read_generation_config(folder: str | Path) -> GenerationConfig:
    """Generation config of a model folder: generation_config.json, else config.json, without defaults of the class."""
    try:
        return GenerationConfig.from_pretrained(folder, local_files_only=True)
    except OSError:
        in_config: dict[str, Any] = {"config_file_name": "config.json", "_from_model_config": True}
        return GenerationConfig.from_pretrained(folder, local_files_only=True, **in_config)


def generating_model(model: Any) -> Any:
    """The model whose generation config counts: that under peft's adapters, or the model itself."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


@contextmanager
def without_own_settings(model: Any) -> Iterator[None]:
    """Hide the model's own generation config, whose settings `generate` would take where the caller names none."""
    base = generating_model(model)
    own, base.generation_config = base.generation_config, GenerationConfig()
    try:
        yield
    finally:
        base.generation_config = own
