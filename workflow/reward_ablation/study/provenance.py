"""Provenance of a run: the code, the packages and the hardware with which it was trained.

The table of provenance shows `quantities` of runs, and other tables say where compared runs differ. Before any job, the
full check refuses by the same functions what the table's rule would refuse (`mixed_provenance: refuse`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from reward_ablation.spec.canonical import key_of
from reward_ablation.study.core_digest import is_around, training_digest

#: Quantities that describe a run's hardware. Any other quantity, except those below and the code, is a package.
HARDWARE = ("machine", "CPUs", "GPUs", "processes")
#: The code that does not decide a run's numbers: launch, checkpoints, messages, and the like.
SURROUNDING = "surrounding code"
#: Key of the record of a run whose rollouts come from another run (`start.rescore`), and the quantity that says so.
RESCORED, SCORED_AFTERWARDS = "rescored", "scored afterwards"
#: Quantities in which runs may differ under `mixed_provenance: refuse`.
MAY_DIFFER = (SURROUNDING, SCORED_AFTERWARDS)

#: Format of the files that an imported run was read from. Other quantities of such a run are not known.
IMPORTED = "imported from"

#: Values by quantity. A quantity has several values if the run continued elsewhere after an interruption.
Quantities = dict[str, list[str]]


def quantities(record: dict[str, Any]) -> Quantities:
    """Provenance of a run, from its `run.json`. Surrounding code is the first attempt's."""
    if "imported" in record:
        return {"code": [record["code"]], IMPORTED: [f"{record['imported']} files"]}
    values: Quantities = {"code": [record["code"]], SURROUNDING: [_surroundings(record.get("modules", {}))]}
    for attempt in attempts_of_final_state(record["attempts"]):
        for quantity, value in _of_attempt(attempt).items():
            seen = values.setdefault(quantity, [])
            if value not in seen:
                seen.append(value)
    if rescored := record.get(RESCORED):
        values[SCORED_AFTERWARDS] = [", ".join(rescored["components"]) or "other names"]
    return values


class Trained(NamedTuple):
    """The code with which a run was trained: its digest, the components' functions, and the digests of its modules."""

    code: str
    functions: list[str]
    modules: dict[str, str]


def comparable_codes(runs: Mapping[str, Trained], functions: Iterable[str]) -> dict[str, str]:
    """Digest of each run's code, made equal for runs that differ only in the components that score them.

    A run of today's code gets the digest over all `functions` of the study. Any other run gets the digest of a run
    before it in `runs` that is scored by other components and has equal deciding modules on record; else its own.
    """
    today = training_digest(functions)
    codes: dict[str, str] = {}
    firsts: dict[str, Trained] = {}
    for name, run in runs.items():
        if run.code == training_digest(run.functions):
            codes[name] = today
            continue
        same_core = (code for code, first in firsts.items() if _differ_in_components_only(first, run))
        codes[name] = next(same_core, run.code)
        firsts.setdefault(codes[name], run)
    return codes


def _differ_in_components_only(first: Trained, other: Trained) -> bool:
    if first.code == other.code or set(first.functions) == set(other.functions):
        return False
    shared = [name for name in first.modules.keys() & other.modules.keys() if not is_around(name)]
    return bool(shared) and all(first.modules[name] == other.modules[name] for name in shared)


def attempts_of_final_state(attempts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Attempts with steps in the final model; those after an attempt's last checkpoint are not."""
    lasting = []
    for number, attempt in enumerate(attempts):
        # An attempt's steps last up to the step where a later attempt began.
        kept = min((later["from_step"] for later in attempts[number + 1 :]), default=attempt["to_step"])
        if kept > attempt["from_step"]:
            lasting.append(attempt)
    return lasting or attempts[-1:]


def _surroundings(modules: dict[str, str]) -> str:
    """Digest of the modules that do not decide a run's numbers."""
    return key_of({name: digest for name, digest in modules.items() if is_around(name)})


def _of_attempt(attempt: dict[str, Any]) -> dict[str, str]:
    """The versions of packages and the hardware of an attempt, by quantity."""
    hardware = attempt["hardware"]
    gpus = " + ".join(f"{count} x {name}" for name, count in Counter(hardware["gpus"]).items())
    return {
        **attempt["packages"],
        "machine": hardware["machine"],
        "CPUs": str(hardware["cpus"]),
        "GPUs": gpus or "none",
        "processes": str(hardware["processes"]),
    }
