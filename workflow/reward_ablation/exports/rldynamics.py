"""The files of `exports: [rldynamics]`: `all_rewards.json`, and beside it whole gradients as `gradients_step_N.npz`.

The rule `export_rldynamics` makes them for each run, by the command of the exports.

rldynamics counts steps from 0, and this project counts from 1: step N in these files is step N + 1 of the run. The
names of files and keys are those of rldynamics. The values are those of the run. A time that was not recorded is null.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reward_ablation.exports.runs import check_listed, read_finished, rollouts_by_step
from reward_ablation.system.files import atomic_path, flush_to_disk, link_or_copy

REWARDS = "all_rewards.json"
#: Names of scores in a sample, with the components that they come from.
SCORES = {"correctness": "correctness", "format": "format", "length_reward": "length"}
_GRADIENTS = "gradients_step_"


def export(run: Path, metadata: Mapping[str, str], output: Path) -> None:
    """Write a run's rewards to the JSON file `output`, step by step, after links to its whole gradients beside it."""
    record = read_finished(run)
    link_gradients(run, record, output.parent)
    began, ended = clock_times(record["attempts"])
    head = {"created_at": began, "model": metadata["model"], "dataset": metadata["dataset"], "last_saved": ended}
    with atomic_path(output) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.write(f'{{\n"metadata": {json.dumps(head)},\n"steps": [')
        for number, step in enumerate(steps_of(run)):
            file.write(("," if number else "") + "\n" + json.dumps(step, allow_nan=False))
        file.write("\n]\n}\n")


def steps_of(run: Path) -> Iterator[dict[str, Any]]:
    """Entries of `steps`, with raw scores, null if none was given, and lengths in characters; no time is on record."""
    columns = ["completion", *(f"score_{component}" for component in SCORES.values())]
    for step, rows in rollouts_by_step(run, columns):
        samples = [
            {"idx": idx}
            | {name: row[f"score_{component}"] for name, component in SCORES.items()}
            | {"actual_length": len(row["completion"])}
            for idx, row in enumerate(rows)
        ]
        yield {
            "step": step - 1,
            "timestamp": None,
            "num_samples": len(samples),
            "statistics": statistics(samples),
            "samples": samples,
        }


def statistics(samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Averages and counts over samples with the score: a correct one has correctness 1, a valid one format above 0."""
    names = (*SCORES, "actual_length")
    known = {name: [sample[name] for sample in samples if sample[name] is not None] for name in names}
    return {
        **{f"avg_{name}": sum(values) / len(values) if values else None for name, values in known.items()},
        "correct_count": sum(score == 1 for score in known["correctness"]),
        "format_valid_count": sum(score > 0 for score in known["format"]),
        "total_samples": len(samples),
    }


def clock_times(attempts: Sequence[Mapping[str, Any]]) -> tuple[str | None, str | None]:
    """Times in UTC at which a run's first process began and its last ended; None outside of Slurm, which records it."""
    began, last = began_at(attempts[0]), began_at(attempts[-1])
    return as_text(began), as_text(None if last is None else last + attempts[-1]["wall_seconds"])


def began_at(attempt: Mapping[str, Any]) -> float | None:
    """Seconds since 1970 at which the process of an attempt began; None if the start was not recorded."""
    job = attempt.get("slurm") or {}
    start = job.get("start")
    return None if start is None else start + (job.get("seconds_before") or 0.0)


def as_text(seconds: float | None) -> str | None:
    """Seconds since 1970 as date and time in UTC."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def link_gradients(run: Path, record: dict[str, Any], folder: Path) -> None:
    """Replace the gradients in a folder by links to those of a run, else by copies, under names with steps from 0."""
    names = [name for name in record["files"] if name.startswith(_GRADIENTS)]
    check_listed(run, record, names)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(f"{_GRADIENTS}*.npz"):
        old.unlink()
    for name in names:
        step = int(name.removeprefix(_GRADIENTS).removesuffix(".npz"))
        link_or_copy(run / name, folder / f"{_GRADIENTS}{step - 1}.npz")
    flush_to_disk(folder)
