"""Model folders, or LoRA adapters over one, loaded without the network and without the model's code.

Evaluation alone uses it. It loads models by it where transformers generates, and asks which folder has the whole model
under an adapter. TRL loads the model of a run itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from reward_ablation.system.errors import StudyError

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel


def whole_model(folder: Path, base: Path | None) -> Path:
    """Folder of the whole model, whose tokenizer and end tokens count: `base` for an adapter, else `folder`."""
    if not (folder / "adapter_config.json").is_file():
        return folder
    if base is None:
        raise StudyError(f"{folder}: holds a LoRA adapter; name its base model too (--base FOLDER)")
    return base


def load_model(
    folder: str | Path, dtype: str = "float32", base: str | Path | None = None
) -> PreTrainedModel | PeftModel:
    """The causal language model of a folder, or a PeftModel over `base`, in evaluation mode, on the CPU."""
    # The path that is recorded in an adapter is not used, because folders move.
    from transformers import AutoModelForCausalLM

    folder = Path(folder)
    whole = whole_model(folder, None if base is None else Path(base))
    if not (whole / "config.json").is_file():
        raise StudyError(f"{whole}: no config.json; not a model folder")
    model = AutoModelForCausalLM.from_pretrained(
        whole, dtype=dtype, use_safetensors=True, trust_remote_code=False, local_files_only=True
    )
    if whole == folder:
        return model.eval()
    from peft import PeftModel

    return PeftModel.from_pretrained(model, folder, is_trainable=False).eval()
