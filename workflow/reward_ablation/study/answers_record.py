"""Decide, by the record beside answers, whether an evaluation would make the same answers today.

The evaluation job asks `are_current` which answers it must make; `start.decide` and `start.history` ask the rest.
`read_record` and `is_record` are for every record of the workflow, also `run.json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reward_ablation.study.core_digest import deciding_digest
from reward_ablation.system.digests import digest_where_present
from reward_ablation.system.files import sha256
from reward_ablation.system.strict_text import load_json

#: Key of `run.json` with the form of the record. Records of earlier versions lack the key.
FORM = "form"
#: The form that training writes now. From it on, the answers of a run name the training that they are from, by the
#: SHA-256 of its `run.json`.
NAMING = 2


@dataclass(frozen=True)
class Making:
    """Everything that decides answers but the settings of evaluation, which the key in their folder's name covers."""

    inputs: Mapping[str, str]  # SHA-256 of `problems`, and of the record of the evaluated `run` or base `model`
    run_record: Path | None = None  # `run.json` of the evaluated run; None for the base model
    any_code: bool = False  # whether code, problems and base model do not count, but only the run's training


def record_beside(file: str | Path) -> Path:
    """Path of the record beside a Parquet file of answers or of problems, or beside a folder."""
    return Path(file).with_suffix(".json")


def are_current(answers: Path, making: Making) -> bool:
    """Whether a file of answers exists, is complete, and was made by today's code and inputs as far as these count."""
    if not answers.is_file():
        return False
    record = read_record(record_beside(answers))
    run = making.inputs.get("run")
    if run and making.run_record and of_another_training(record, run, making.run_record):
        return False
    if any(record.get(name, found) != found for name, found in _size_and_digest(answers, record).items()):
        return False
    others = {name: digest for name, digest in making.inputs.items() if name != "run"}  # it is compared above
    return making.any_code or not made_otherwise(record, others)


def of_another_training(record: Mapping[str, Any], trained: str, run_record: Path) -> bool:
    """Whether answers are of an earlier training of their run than this `run.json` is, whose SHA-256 is `trained`.

    Copies lose times of files, so these do not count. Answers that name no run are older than a `run.json` with a form.
    The hidden copy of `run.json` counts as well: a byte that an editor added to `run.json` is no other training.
    """
    named = record.get("inputs", {}).get("run")
    if named is None:
        return bool(read_record(run_record).get(FORM, 1) >= NAMING)
    # The copy is read only where it may matter.
    return bool(named != trained) and named != digest_where_present(run_record.with_name(f".{run_record.name}"))


def made_otherwise(record: Mapping[str, Any], inputs: Mapping[str, str]) -> bool:
    """Whether answers were made by other code, or from other inputs. A value that their record lacks is unchanged."""
    made_of, code = record.get("inputs", {}), deciding_digest("evaluation")
    return record.get("code", code) != code or any(made_of.get(name, now) != now for name, now in inputs.items())


def read_record(path: Path) -> dict[str, Any]:
    """A record, such as that beside answers; empty if there is none, or it cannot be read as one."""
    try:
        record = load_json(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return record if is_record(record) else {}


def is_record(value: Any) -> bool:
    """Whether a value of JSON has the types of a record of a run or of answers, in the parts that starts read."""
    if not isinstance(value, dict):
        return False
    attempts = value.get("attempts", [])
    mappings = all(isinstance(value.get(name, {}), dict) for name in ("files", "inputs", "modules", "sizes", "spec"))
    return mappings and isinstance(attempts, list) and all(isinstance(each, dict) for each in attempts)


def _size_and_digest(answers: Path, record: Mapping[str, Any]) -> dict[str, Any]:
    """Size of the file and, if the size is the recorded one, its SHA-256: a large file is not read needlessly."""
    size = answers.stat().st_size
    return {"size": size} | ({"sha256": sha256(answers)} if record.get("size") == size else {})
