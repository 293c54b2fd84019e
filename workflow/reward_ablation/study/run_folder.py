"""Names in a run's folder, as training writes them and planning reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

#: A finished run's record, and a hidden copy. Snakemake does not know the copy, and so does not remove it.
RECORD, HIDDEN_RECORD = "run.json", ".run.json"
#: In the results folder: what `reward-ablation prune` set aside; and a file with a line for each run that it deleted,
#: since such a run may have suggested a question, too.
TRASH, PRUNED = "trash", ".pruned_runs"
#: In the folder of a run that diverged: what the run was trained with, and at which step it diverged.
DIVERGED = "diverged.json"
#: Output of the run's vLLM server in the last attempt.
VLLM_LOG = "vllm.log"
#: Lock of the process that trains the run. This process may outlive its Snakemake.
LOCK = ".lock"
#: Folder with the work of an unfinished run: its checkpoints, and the parts of its tables.
WORK = ".work"
#: Folder with the unfinished answers of a job, in the folder of a model's answers.
UNFINISHED = ".unfinished"
#: Ending of the hidden folder of an unfinished supervised start. It lies beside the future folder of the model.
SFT_WORK = ".sft"
#: In a folder of work: the time and hardware of each attempt; and the folder of counted requests to endpoints.
ATTEMPTS, REQUESTS = "attempts.json", "requests"
#: The resolved study, in the results folder; and the folder there with the answers of endpoints, which all runs share.
DESCRIPTION, ANSWERS_OF_JUDGES = "study.json", "judge"
#: In a folder of work: the spec, code and inputs that the work belongs to. In each checkpoint: the list of digests,
#: which is written last.
OWNER, SEAL = "owner.json", "checksums.json"
#: Folder of the final model; and the start of the name of each model that the run kept during training.
MODEL, KEPT_MODEL = "model", "model-step"


def gpus_of(attempt: dict[str, Any]) -> int:
    """Number of GPUs that an attempt had by its record."""
    return len(attempt.get("hardware", {}).get("gpus", []))


def answers_of_judges(run_dir: Path) -> Path | None:
    """Where the answers of endpoints are kept for a run; None where its folder is in no results folder."""
    runs = run_dir.resolve().parent.parent
    return runs.parent / ANSWERS_OF_JUDGES if runs.name == "runs" else None


def description_of(run_dir: Path) -> Path:
    """`study.json` of the results folder that a run belongs to, even if folders in between are links."""
    return run_dir.absolute().parent.parent.parent / DESCRIPTION


def step_of_checkpoint(name: str) -> int:
    """Step of a folder `checkpoint-N`; 0 for any other name."""
    kind, _, number = name.rpartition("-")
    return int(number) if kind == "checkpoint" and number.isdecimal() else 0


def step_of_kept_model(name: str) -> int:
    """Step of a folder `model-stepN`; 0 for any other name."""
    number = name.removeprefix(KEPT_MODEL)
    return int(number) if number != name and number.isdecimal() else 0
