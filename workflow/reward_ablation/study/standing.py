"""What stood declared when each run began, as the run's own record says.

A start, the tables and the report ask how many runs had begun before a declaration. `study.json` can be deleted, edited
or put beside other runs. Each attempt of a run therefore records what it declared then. Where the two differ, the later
time and the larger number of runs count. Where neither proves the order, it is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from reward_ablation.study.run_folder import ATTEMPTS, HIDDEN_RECORD, PRUNED, RECORD, WORK
from reward_ablation.system.strict_text import load_json

#: Key of an attempt's record: what was declared as the attempt began.
DECLARATIONS = "declarations"


class Recorded(BaseModel):
    """A part of `study.json`. Keys of later versions are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Since(Recorded):
    """When something was first recorded in the study's folder, and how many runs had begun there by then."""

    declared: str | None = None  # UTC, ISO 8601; None in a `study.json` of an earlier version, which declared nothing
    runs_then: int | None = 0  # 0 if no run had begun, or if `declared` is None; None if that is not known
    # Whether runs that begin later record it: a run without a record may then have begun before. False for imported
    # runs and in files of earlier versions, whose runs recorded no declarations.
    in_runs: bool = False

    @property
    def since(self) -> dict[str, Any]:
        """The fields of `Since` alone, as another statement with the same time takes them."""
        return self.model_dump(include={*Since.model_fields})


class Stood(Since):
    """A `Since` in the record of a run. `arms` are keys of the arms that the study had then (`primary.Question`)."""

    arms: dict[str, str] = {}


#: What stood declared: under `primary`, `claims` and `sequential`, as in `study.json`, the time of each key.
#: A key is the digest of a question, a claim or a plan of looks.
Standing = dict[str, dict[str, Stood]]
#: What stood declared when each run began. The records of runs are read only if this is called.
Began = Callable[[], Sequence[Standing | None]]
_STANDING = TypeAdapter(Standing)
#: Files with the attempts of a finished run, of one that can be restored, and of an unfinished one. The hidden copy is
#: left where `snakemake --delete-all-output` deleted the record: the run's job restores it (`training.around.finish`).
_RECORDS = (RECORD, HIDDEN_RECORD, f"{WORK}/{ATTEMPTS}")

Statement = TypeVar("Statement", bound=Since)


def is_begun(run: Path) -> bool:
    """Whether the run in a folder has begun to train: it is finished, can be restored, or has unfinished work."""
    return any((run / name).is_file() for name in _RECORDS)


def begun_runs(runs: Path) -> list[Path]:
    """Folders of all runs that have begun to train, runs of other configs included."""
    return [run for run in runs.glob("*/seed*") if is_begun(run)]


def number_begun(runs: Path) -> int:
    """How many runs have begun to train, with those that `reward-ablation prune` deleted."""
    names = ["/".join(run.parts[-2:]) for run in begun_runs(runs)]
    with suppress(OSError):
        names += runs.with_name(PRUNED).read_text().split()
    return len(set(names))


def standing_at_begin(run: Path) -> Standing | None:
    """What stood declared when the run in a folder began; None if its records do not say."""
    for name in _RECORDS:
        try:
            written = load_json((run / name).read_bytes())
        except (OSError, ValueError):
            continue
        return standing_of(written.get("attempts") if isinstance(written, dict) else written)
    return None


def standing_of(attempts: Any) -> Standing | None:
    """What stood declared when the first of a run's attempts began; None if their records do not say."""
    try:
        first = attempts[0]  # if it went on from a step, the attempt that began the run is not on record
        return None if first["from_step"] else _STANDING.validate_python(first[DECLARATIONS])
    except (LookupError, TypeError, ValidationError):
        return None


def standings(runs: Path) -> list[Standing | None]:
    """What stood declared when each run began, runs of other configs included; None where a record does not say."""
    return [standing_at_begin(run) for run in begun_runs(runs)]


def recovered(kind: str, key: str, began: Sequence[Standing | None]) -> Stood | None:
    """The declaration of a key that a lost `study.json` had; None if no run has it, or one without it began later."""
    found = [each[kind][key] for each in began if each and key in each.get(kind, {})]
    if not found:
        return None
    first = min(found, key=lambda since: since.declared or "")
    without = [each for each in began if each is not None and key not in each.get(kind, {})]
    questions = [since.declared or "" for each in without for since in each.get("primary", {}).values()]
    if max(questions, default="") > (first.declared or ""):
        return None
    return as_runs_say(first, kind, key, began)


def is_former(kind: str, key: str, former: str, on_record: Collection[str], began: Began) -> bool:
    """Whether a statement is on record by the key that an earlier version gave it, and not by its present key."""
    if key in on_record or former in on_record:
        return key not in on_record
    stood = {each_key for each in began() if each for each_key in each.get(kind, {})}
    return former in stood and key not in stood


def as_runs_say(statement: Statement, kind: str, key: str, began: Sequence[Standing | None]) -> Statement:
    """A statement of `study.json` with the number of runs that had begun before it by these runs' own records."""
    if statement.declared is None:
        return statement
    found = [each[kind][key] for each in began if each and key in each.get(kind, {})]
    without = sum(each is not None and key not in each.get(kind, {}) for each in began)
    numbers = [statement.runs_then, *(since.runs_then for since in found)]
    known = [number for number in numbers if number is not None]
    runs_then: int | None = max([without, *known])
    if not runs_then and (statement.runs_then is None or (statement.in_runs and None in began)):
        runs_then = None
    declared = max(statement.declared, min([since.declared or "" for since in found], default=""))
    return statement.model_copy(update={"declared": declared, "runs_then": runs_then})


def when(runs_then: int | None) -> str:
    """When something was declared, in words: `before the first run`, or `after 4 runs were there`."""
    if runs_then is None:
        return "not known whether before the first run"
    if not runs_then:
        return "before the first run"
    return f"after {runs_then} {'run was' if runs_then == 1 else 'runs were'} there"


def when_sentence(runs_then: int | None, verb: str = "Declared") -> str:
    """When something was declared, as a sentence, with what follows for a test."""
    if runs_then is None:
        return f"{verb}, but it is not known whether before the first run: records of runs do not name it."
    if not runs_then:
        return f"{verb} before the first run."
    runs = f"{runs_then} run{'' if runs_then == 1 else 's'}"
    return f"{verb} when {runs} had begun: what these runs may have suggested, they cannot confirm."
