"""The end of a run: its outputs, made from the sealed final folder and the parts of its tables, by file operations.

`run` calls it after the last step, or in the next attempt if the run was ended in between. Each operation can be
repeated, and `.work` is removed only when the record of the whole result is on disk. If a run is ended at any point
here, the next start finishes it without a step of training. Snakemake removes the run.json of a job whose end it did
not see; the hidden copy of the record restores the file.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
from transformers import TrainerState

from reward_ablation.combination import of_run
from reward_ablation.gram import similarity, store
from reward_ablation.rewards.request_records import Usage, counted
from reward_ablation.study.answers_record import FORM, NAMING
from reward_ablation.study.run_folder import (
    DIVERGED,
    HIDDEN_RECORD,
    MODEL,
    OWNER,
    RECORD,
    REQUESTS,
    SEAL,
    WORK,
    deciding_inputs,
    gpus_of,
)
from reward_ablation.system.files import (
    flush_to_disk,
    give_usual_modes,
    link_or_copy,
    sha256,
    write_json,
    write_parquet,
)
from reward_ablation.system.strict_text import load_json
from reward_ablation.training.around.attempts import ended_attempts
from reward_ablation.training.around.checkpoints import last_good, read_json
from reward_ablation.training.around.parts import WHOLE_GRADIENTS, join_large_parts, join_parts, kept_models
from reward_ablation.training.core.interfaces import WEIGHTS
from reward_ablation.training.core.rollouts import EXTRA, rollout_schema

#: Folder with the final model and the trainer's state, sealed like a checkpoint. Training ends with it.
FINAL = "final"
STATE = "trainer_state.json"

#: Large tables, of Gram matrices and of their rows, with their columns. They are joined with little in memory.
ARRAYS = {"sample_grams": store.GRAM_SCHEMA, "sample_gram_rows": store.ROW_SCHEMA}
#: Patterns of the files that training leaves in a run's folder. Other files there belong to somebody else.
OUTPUTS = ("*.parquet", "gradients_step_*.npz", "model/**/*", "model-step*/**/*")
#: Metrics that depend on a clock. They differ between two equal runs, so run.json has times instead of the table.
TIMED = (
    "step_time",
    "train_runtime",
    "train_samples_per_second",
    "train_steps_per_second",
    "train_tokens_per_second",
    "total_flos",
)


def trained(work: Path) -> bool:
    """Whether all steps of a run are trained, and its final folder is unchanged since it was written."""
    return last_good([path for path in [work / FINAL] if path.exists()], work / "parts") is not None


def finish_run(run_dir: Path) -> None:
    """Make a trained run's outputs, `run.json` last. The run's folder must hold `.work/final`."""
    work = run_dir / WORK
    parts = work / "parts"
    state = TrainerState.load_from_json(str(work / FINAL / STATE))
    owner = load_json((work / OWNER).read_text())
    components = list(owner["spec"]["components"])
    join_parts(parts, "rollouts", rollout_schema(components), run_dir / "rollouts.parquet", EXTRA)
    join_parts(parts, "gradients", similarity.SCHEMA, run_dir / "gradients.parquet")
    if owner["spec"].get("combine"):
        join_parts(parts, WEIGHTS, of_run.SCHEMA, run_dir / f"{WEIGHTS}.parquet")
    for name, schema in ARRAYS.items():
        join_large_parts(parts, name, schema, run_dir / f"{name}.parquet")
    for path in parts.glob(f"{WHOLE_GRADIENTS}*.npz"):
        link_or_copy(path, run_dir / path.name)
    write_parquet(metrics_table(state.log_history), run_dir / "metrics.parquet")
    _place_model(work / FINAL, work, run_dir / MODEL)
    kept = kept_models(parts)
    for model in kept:
        _place_model(model, work, run_dir / model.name)
    for folder in kept_models(run_dir):  # models of an earlier result with more steps
        if folder.name not in {model.name for model in kept}:
            shutil.rmtree(folder)
    steps = state.global_step
    record = run_record(owner, ended_attempts(work, steps), steps, run_dir, counted(work / REQUESTS))
    write_json(record, run_dir / HIDDEN_RECORD)
    _publish(run_dir)


def finished(run_dir: Path, owner: dict[str, Any], any_code: bool = False) -> bool:
    """Whether the whole result of this run is there, of any code and inputs if `any_code`; then restores `run.json`."""
    record = read_json(run_dir / HIDDEN_RECORD)
    if record is None:
        return False
    spec = {**record["spec"], "seed": record["seed"]}
    of_record = {"spec": spec, "code": record["code"], "inputs": deciding_inputs(spec, record["inputs"])}
    today = {**owner, "inputs": deciding_inputs(owner["spec"], owner["inputs"])}
    if of_record["spec"] != today["spec"] or (of_record != today and not any_code):
        return False
    for name, digest in record["files"].items():
        path = run_dir / name
        if not path.is_file() or sha256(path) != digest:
            print(f"train: {path} is not what was written there: training again", flush=True)
            return False
    _publish(run_dir)
    return True


def clear_outputs(run_dir: Path) -> None:
    """Remove the records of an earlier result, or of a divergence, before a new result replaces its files."""
    for name in (RECORD, HIDDEN_RECORD, DIVERGED):
        (run_dir / name).unlink(missing_ok=True)


def _publish(run_dir: Path) -> None:
    """Remove the work folder, and copy the hidden record to `run.json`: the run is finished."""
    shutil.rmtree(run_dir / WORK, ignore_errors=True)
    write_json(load_json((run_dir / HIDDEN_RECORD).read_text()), run_dir / RECORD)


def _place_model(source: Path, work: Path, target: Path) -> None:
    """Put a model in place by links and one move. The source stays whole until the run is finished."""
    model = work / MODEL
    shutil.rmtree(model, ignore_errors=True)
    for path in sorted(source.rglob("*")):
        if path.is_file() and path.name not in (STATE, SEAL):
            link_or_copy(path, model / path.relative_to(source))
    give_usual_modes(model)
    for folder in (model, *(path for path in model.rglob("*") if path.is_dir())):
        flush_to_disk(folder)
    shutil.rmtree(target, ignore_errors=True)
    os.replace(model, target)
    flush_to_disk(target.parent)


def metrics_table(history: list[dict[str, Any]]) -> pa.Table:
    """The trainer's log history: one row per step, one column per metric, null where a step did not log the metric."""
    rows = [row for row in history if "loss" in row]  # the last entry sums up the whole training
    names = sorted({name for row in rows for name in row} - {"step", *TIMED})
    columns = {name: pa.array([_float(row.get(name)) for row in rows], pa.float64()) for name in names}
    return pa.table({"step": pa.array([row["step"] for row in rows], pa.int64()), **columns})


def _float(value: Any) -> float | None:
    return None if value is None else float(value)


def run_record(
    owner: dict[str, Any], attempts: list[dict[str, Any]], steps: int, folder: Path, requests: Usage | None = None
) -> dict[str, Any]:
    """Content of a finished run's `run.json`: spec, code, inputs, times, hardware and files.

    `owner` has the spec with the seed, and digests of code, modules and inputs, as the run began. `requests` to
    endpoints are left out of the record if there are none.
    """
    spec = dict(owner["spec"])
    gpu_seconds = sum(attempt["wall_seconds"] * gpus_of(attempt) for attempt in attempts)
    threads = [attempt["hardware"]["processes"] * attempt["threads"] for attempt in attempts]
    cpu_seconds = sum(attempt["wall_seconds"] * number for attempt, number in zip(attempts, threads, strict=True))
    files = sorted(path for pattern in OUTPUTS for path in folder.glob(pattern) if path.is_file())
    return {
        FORM: NAMING,  # of records: answers to this run name it by the digest of its record
        "seed": spec.pop("seed"),
        "spec": spec,
        "code": owner["code"],
        "modules": owner["modules"],
        "inputs": owner["inputs"],
        "steps": steps,
        "attempts": attempts,
        "wall_seconds": round(sum(attempt["wall_seconds"] for attempt in attempts), 1),
        "gpu_hours": round(gpu_seconds / 3600, 4),
        "cpu_hours": round(cpu_seconds / 3600, 4),
        "peak_memory_mb": max(attempt["peak_memory_mb"] for attempt in attempts),
        "packages": attempts[-1]["packages"],
        "hardware": attempts[-1]["hardware"],
        "files": {str(path.relative_to(folder)): sha256(path) for path in files},
        "sizes": {str(path.relative_to(folder)): path.stat().st_size for path in files},
        **({"requests": requests} if requests else {}),
    }
