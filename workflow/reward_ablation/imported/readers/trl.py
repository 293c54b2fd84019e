"""Completions that TRL's GRPOTrainer logs (`log_completions`): one Parquet file for each logged step.

`reward-ablation import` calls `read_rollouts` for runs in the format `trl`.

A file has step, prompt, completion, one column for each reward function, further columns that rewards log, and
advantage. TRL logs its last generation batch. So a file lacks the completions of steps between two logs, and repeats
those of the step before where one generation batch serves several steps.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pyarrow as pa

from reward_ablation.config.config_errors import validate_spec
from reward_ablation.imported.files import json_object, number, parquet_batches, parts, text, without_nan
from reward_ablation.imported.readers.common import RolloutOptions, Row, prompt_id, rollouts
from reward_ablation.imported.rows import Rollouts
from reward_ablation.system.errors import StudyError

#: Columns of each file that are no reward function's.
OWN = ("step", "prompt", "completion", "advantage")


def read_rollouts(path: Path, options: dict[str, Any]) -> Rollouts:
    """The completions of a run: of one file, of the folder `completions`, or of the trainer's output folder."""
    chosen = validate_spec(RolloutOptions, options, "rollouts").scores
    missing = [
        "TRL's files of completions have no token counts and do not say which completions the length limit cut off."
    ]
    history = _history(path)
    evaluated = {entry.get("step") for entry in history if any(str(key).startswith("eval_") for key in entry)}
    last_logged = max((entry["step"] for entry in history if type(entry.get("step")) is int), default=0)
    rows: list[Row] = []
    names: dict[str, str] | None = None
    before, repeated, of_evaluation = b"", 0, 0
    for file in parts(path, "completions_*.parquet", "completions/completions_*.parquet"):
        table = pa.concat_tables([without_nan(batch) for batch in parquet_batches(file)])
        names = _scores(table, chosen, names, file)
        content = hashlib.sha256(repr(table.drop_columns("step").to_pydict()).encode()).digest()
        if content == before:
            repeated += 1
            continue
        before = content
        of_file = [_row(row, names, f"{file}: row {index}") for index, row in enumerate(table.to_pylist(), 1)]
        if of_file and of_file[0]["step"] in evaluated:  # TRL writes the completions of an evaluation over the step's
            of_evaluation += 1
            continue
        rows += of_file
    if repeated:
        missing.append(f"{repeated} files repeat the completions of the file before, and are left out.")
    if of_evaluation:
        missing.append(f"The completions of {of_evaluation} steps are of an evaluation, and are left out.")
    if max((row["step"] for row in rows), default=0) > last_logged:
        missing.append(
            f"No trainer_state.json says at which steps after {last_logged} the trainer evaluated; there, the "
            "completions are those of the evaluation."
        )
    return rollouts(path, rows, RolloutOptions(), missing, _metrics(history))


def _scores(table: pa.Table, chosen: dict[str, str] | None, known: dict[str, str] | None, file: Path) -> dict[str, str]:
    """The column of each component: as chosen, as in the files before (`known`), else each of floats or nulls alone."""
    if absent := [name for name in (*OWN, *(chosen or known or {}).values()) if name not in table.column_names]:
        raise StudyError(f"{file}: no column {absent[0]!r}; columns here: {', '.join(table.column_names)}")
    if chosen is not None:
        return chosen
    further = [field for field in table.schema if field.name not in OWN]
    floats = [field.name for field in further if pa.types.is_floating(field.type)]
    names = floats if known else [*floats, *(field.name for field in further if pa.types.is_null(field.type))]
    if new := [name for name in names if known and name not in known]:
        raise StudyError(
            f"{file}: scores {new[0]!r}, which the files before lack; name the columns of rewards with rollouts.scores"
        )
    if not names and not known:
        raise StudyError(f"{file}: no column of scores; name them with rollouts.scores, {{COMPONENT: COLUMN}}")
    return known or {name: name for name in names}


def _row(row: Row, names: dict[str, str], where: str) -> Row:
    """A row of TRL's file in the form that `common.rollouts` takes."""
    if type(row["step"]) is not int:
        raise StudyError(f"{where}: step is {str(row['step'])[:40]!r}, not a whole number")
    prompt = _words(row["prompt"], f"{where}: prompt")
    return {
        "step": row["step"],
        "problem_id": prompt_id(prompt),  # TRL names a problem by nothing else
        "prompt": prompt,
        "completion": _words(row["completion"], f"{where}: completion"),
        "advantage": number(row["advantage"], f"{where}: advantage"),
        "scores": {name: number(row[column], f"{where}: {column}") for name, column in names.items()},
        "further": {},
    }


def _words(value: Any, where: str) -> str:
    """A text, or the contents of a conversation, one message after the other."""
    if not isinstance(value, list):
        return text(value, where)
    contents = [message.get("content") if isinstance(message, dict) else None for message in value]
    return "\n".join(text(content, f"{where}: content of a message") for content in contents)


def trainer_states(path: Path) -> list[Path]:
    """Each `trainer_state.json` of a run, in the output folder and in its checkpoints."""
    folder = path if path.is_dir() else path.parent
    folder = folder.parent if folder.name == "completions" else folder
    states = [folder / "trainer_state.json", *folder.glob("checkpoint-*/trainer_state.json")]
    return [state for state in states if state.is_file() and not state.is_symlink()]


def _history(path: Path) -> list[Row]:
    """The longest log in the run's `trainer_states`; empty if there is none."""
    logs = [json_object(state).get("log_history") for state in trainer_states(path)]
    longest: list[Any] = max((log for log in logs if isinstance(log, list)), key=len, default=[])
    return [entry for entry in longest if isinstance(entry, dict)]


def _metrics(history: list[Row]) -> pa.Table | None:
    """The trainer's metrics of each step that has a loss."""
    rows = [entry for entry in history if type(entry.get("step")) is int and "loss" in entry]
    names = sorted({name for row in rows for name, value in row.items() if type(value) in (int, float)} - {"step"})
    if not rows or not names:
        return None
    columns = {name: [row.get(name) if type(row.get(name)) in (int, float) else None for row in rows] for name in names}
    arrays = {name: pa.array(values, pa.float64()) for name, values in columns.items()}
    return pa.table({"step": pa.array([row["step"] for row in rows], pa.int64()), **arrays})
