"""Names in a run's folder, as training writes them and planning reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

#: A finished run's record, and its hidden copy, which Snakemake does not know and so does not remove.
RECORD, HIDDEN_RECORD = "run.json", ".run.json"
#: What the vLLM server of a run has printed, of its last attempt.
VLLM_LOG = "vllm.log"
#: Held by the process that trains the run, which may have outlived its Snakemake.
LOCK = ".lock"
#: Folder of an unfinished run: checkpoints, and the parts of its tables.
WORK = ".work"
#: Folder of unfinished answers, in the folder of a model's answers: what one job has made so far.
UNFINISHED = ".unfinished"
#: Ending of the hidden folder of an unfinished supervised start, beside the folder that its model gets.
SFT_WORK = ".sft"
#: In a folder of work, what each attempt spent, and the folder of the requests to endpoints that were counted.
ATTEMPTS, REQUESTS = "attempts.json", "requests"
#: In the results folder: answers of endpoints, which all runs share.
ANSWERS_OF_JUDGES = "judge"
#: In a folder of work, whose work it is; and in each of its checkpoints, the list of digests that is written last.
OWNER, SEAL = "owner.json", "checksums.json"
#: Folder of the final model, and the start of the name of each model that was kept on the way.
MODEL, KEPT_MODEL = "model", "model-step"


def gpus_of(attempt: dict[str, Any]) -> float:
    """Number of GPUs that an attempt had by its record, or its share of one."""
    return len(attempt.get("hardware", {}).get("gpus", [])) * attempt.get("gpu_share", 1.0)


def answers_of_judges(run_dir: Path) -> Path | None:
    """Where the answers of endpoints are kept for a run; None where its folder is in no results folder."""
    runs = run_dir.resolve().parent.parent
    return runs.parent / ANSWERS_OF_JUDGES if runs.name == "runs" else None


def step_of_checkpoint(name: str) -> int:
    """Step of a folder `checkpoint-N`; 0 for any other name."""
    kind, _, number = name.rpartition("-")
    return int(number) if kind == "checkpoint" and number.isdecimal() else 0


def step_of_kept_model(name: str) -> int:
    """Step of a folder `model-stepN`; 0 for any other name."""
    number = name.removeprefix(KEPT_MODEL)
    return int(number) if number != name and number.isdecimal() else 0
