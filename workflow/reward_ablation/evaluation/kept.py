"""The models that a run kept during training, which `evaluation` judges beside the final model.

The command of this package calls it in a study that keeps models. It is apart from the command because it decides which
models are judged: if this code changes, the answers are made again.
"""

from __future__ import annotations

from pathlib import Path

from reward_ablation.study.run_folder import RECORD, step_of_kept_model
from reward_ablation.system.digests import read_object
from reward_ablation.system.errors import StudyError


def kept_models(run: Path) -> dict[int, Path]:
    """Folders of the models that a run kept, by step, ascending. Its record lists them; some may be gone."""
    remedy = f"delete {run} and run the workflow again, which trains it again"
    files = read_object(run / RECORD, remedy).get("files")
    if not isinstance(files, dict):
        raise StudyError(f"{run / RECORD}: lists no files; {remedy}")
    folders = {name.partition("/")[0] for name in files}
    steps = {step_of_kept_model(name): run / name for name in folders}
    return {step: steps[step] for step in sorted(steps) if step}
