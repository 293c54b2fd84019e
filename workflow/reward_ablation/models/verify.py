"""Checks that a model is as it was fetched or trained, and that its weights are finite.

Training, the supervised start, evaluation and the rule `score` call the first check before they use a model. Its bytes
must have the digests in its record. With NaN or infinite weights, its answers would mean nothing: `check` refuses such
a model when it is fetched, and evaluation refuses such a run.
"""

from __future__ import annotations

from pathlib import Path

from reward_ablation.system.digests import check_files, read_object
from reward_ablation.system.errors import NotFinite, StudyError
from reward_ablation.system.imports import large_imports

#: The record of a base model, in the model's folder, and of a run, beside the folder of the run's model.
FETCHED, TRAINED = "model.json", "run.json"


def verify_model(folder: Path) -> None:
    """Refuse a model with a truncated or changed file, before it costs hours of training or makes a wrong figure."""
    # A folder without a record was not made by the workflow, and passes.
    folder, run = Path(folder), Path(folder).parent
    if (folder / FETCHED).is_file():
        remedy = f"delete {folder} and run the workflow again, which fetches it again"
        files = read_object(folder / FETCHED, remedy).get("files", {})
        check_files(folder, {name: entry["sha256"] for name, entry in files.items()}, files, FETCHED, remedy)
    elif (run / TRAINED).is_file():
        remedy = f"delete {run} and run the workflow again, which trains it again"
        files = read_object(run / TRAINED, remedy).get("files", {})
        of_model = [path for path in files if path.startswith(f"{folder.name}/")]
        check_files(run, files, of_model or [f"{folder.name}/config.json"], TRAINED, remedy)


def first_not_finite(folder: Path) -> str | None:
    """Name of the first tensor with a NaN or infinite value in a folder's safetensors files; None if there is none."""
    with large_imports():
        from safetensors.torch import safe_open

    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            for name in file.keys():  # noqa: SIM118
                tensor = file.get_tensor(name)
                # Integers are finite, and torch cannot compare numbers of one byte.
                if not tensor.is_floating_point() or tensor.element_size() == 1 or not tensor.numel():
                    continue
                # The ends are NaN if any value is. Unlike isfinite, aminmax makes no copy of a large tensor.
                if not all(end.isfinite() for end in tensor.aminmax()):
                    return str(name)
    return None


def check_fetched(folder: Path, where: str) -> None:
    """Refuse a base model or a reward model with values that are not finite. `where` is what a message calls it."""
    if name := first_not_finite(folder):
        raise StudyError(
            f"{where}: the tensor {name} has values that are NaN or infinite; take another copy of the model or, "
            "after a supervised start, lower sft.training.learning_rate"
        )


def check_trained(folder: Path) -> None:
    """Raise `NotFinite` for a trained model with values that are not finite, before it is evaluated."""
    if name := first_not_finite(folder):
        raise NotFinite(f"the tensor {name} has values that are NaN or infinite")
