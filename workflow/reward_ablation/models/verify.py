"""Check that a model is as it was fetched or trained: its bytes must have the digests in its record."""

from __future__ import annotations

from pathlib import Path

from reward_ablation.system.digests import check_files, read_object

#: The record of a base model, in the model's folder, and of a run, beside the folder of the run's model.
FETCHED, TRAINED = "model.json", "run.json"


def verify_model(folder: Path) -> None:
    """Refuse a model with a truncated or changed file, before it costs hours of training or makes a wrong figure.

    The check reads all files, which must be read anyway. A folder without a record was not made by the workflow, and
    passes. `folder` is that of a base model, or `model` in a run's folder. Raises StudyError if a file is missing,
    truncated or changed.
    """
    folder = Path(folder)
    if (folder / FETCHED).is_file():
        verify_base(folder)
    elif (folder.parent / TRAINED).is_file():
        verify_trained(folder.parent, folder.name)


def verify_base(folder: Path) -> None:
    """Check a base model against its model.json."""
    remedy = f"delete {folder} and run the workflow again, which fetches it again"
    files = read_object(folder / FETCHED, remedy).get("files", {})
    check_files(folder, {name: entry["sha256"] for name, entry in files.items()}, files, FETCHED, remedy)


def verify_trained(folder: Path, name: str) -> None:
    """Check the model in a run's folder against the run's record."""
    remedy = f"delete {folder} and run the workflow again, which trains it again"
    files = read_object(folder / TRAINED, remedy).get("files", {})
    of_model = [path for path in files if path.startswith(f"{name}/")]
    check_files(folder, files, of_model or [f"{name}/config.json"], TRAINED, remedy)
