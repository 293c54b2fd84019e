"""By which code, with which packages and on which hardware a run was trained."""

from __future__ import annotations

from collections import Counter
from typing import Any

from reward_ablation.study.canonical import key_of
from reward_ablation.study.core_digest import is_around

#: Quantities that a run's hardware is told by; what is neither these nor the code is a package.
HARDWARE = ("machine", "CPUs", "GPUs", "processes")
#: The code around what decides a run's numbers: launch, checkpoints, messages, and the like.
SURROUNDING = "surrounding code"

#: Values by quantity; more than one where an interruption took a run elsewhere.
Quantities = dict[str, list[str]]


def quantities(record: dict[str, Any]) -> Quantities:
    """Provenance of a run, from its `run.json`.

    The code that decides numbers is one, since an interrupted run does not go on under other such code. The surrounding
    code is that of the first attempt.
    """
    values: Quantities = {"code": [record["code"]], SURROUNDING: [_surroundings(record.get("modules", {}))]}
    for attempt in lasting_attempts(record["attempts"]):
        for quantity, value in _of_attempt(attempt).items():
            seen = values.setdefault(quantity, [])
            if value not in seen:
                seen.append(value)
    return values


def lasting_attempts(attempts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Attempts with steps that are in the final model: what each trained after its last checkpoint is not."""
    lasting = []
    for place, attempt in enumerate(attempts):
        # What a killed attempt reached is known by where the next one began, to a few seconds by its own record.
        kept = min((later["from_step"] for later in attempts[place + 1 :]), default=attempt["to_step"])
        if kept > attempt["from_step"]:
            lasting.append(attempt)
    return lasting or attempts[-1:]


def _surroundings(modules: dict[str, str]) -> str:
    """Digest of the modules that only surround what decides a run's numbers."""
    return key_of({name: digest for name, digest in modules.items() if is_around(name)})


def _of_attempt(attempt: dict[str, Any]) -> dict[str, str]:
    hardware = attempt["hardware"]
    gpus = " + ".join(f"{count} x {name}" for name, count in Counter(hardware["gpus"]).items())
    return {
        **attempt["packages"],
        "machine": hardware["machine"],
        "CPUs": str(hardware["cpus"]),
        "GPUs": gpus or "none",
        "processes": str(hardware["processes"]),
    }
