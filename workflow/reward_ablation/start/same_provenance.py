"""`mixed_provenance: refuse` before the first job, as far as it can be known then."""

from __future__ import annotations

import platform
from importlib.metadata import version

from reward_ablation.start.history import read_record
from reward_ablation.study.provenance import HARDWARE, SURROUNDING, Quantities, quantities
from reward_ablation.study.study import Study
from reward_ablation.system.errors import StudyError

#: Values seen first, by quantity, and where.
Seen = dict[str, tuple[str, str]]


def check_before_training(study: Study, code_counts: bool = True) -> None:
    """Under `mixed_provenance: refuse`, refuse before any job what the rule `tables_provenance` would refuse.

    What hardware the coming runs get is not known yet.

    Parameters
    ----------
    code_counts : bool
        Whether runs of other code are trained again, so that theirs does not count.

    Raises
    ------
    StudyError
    """
    if study.config.mixed_provenance == "tell":
        return
    seen: Seen = {}
    to_train = False
    for name in study.runs:
        record = read_record(study.root / study.config.root / "runs" / name)
        if not record or (code_counts and record.get("code") != study.train_code):
            to_train = True
        elif "attempts" in record:  # else of an older version, which the tables tell
            _compare(seen, quantities(record), f"runs/{name}", study)
    if to_train and seen:
        _compare(seen, _of_this_environment(study.train_code, seen), "the runs to be trained now", study)


def _compare(seen: Seen, values: Quantities, where: str, study: Study) -> None:
    """Hold values against those seen first."""
    for quantity, of_run in values.items():
        for value in of_run if quantity != SURROUNDING else []:
            first, there = seen.setdefault(quantity, (value, where))
            if value != first:
                raise StudyError(
                    f"{study.config.root}: {quantity} is {first} in {there} and {value} in {where}; delete the runs "
                    "that are to be trained again, install what they were trained with, or set mixed_provenance: tell"
                )


def _of_this_environment(code: str, seen: Seen) -> Quantities:
    """Code and packages that the coming runs will have."""
    packages = [name for name in seen if name not in {"code", "python", *HARDWARE}]
    return {
        "code": [code],
        "python": [platform.python_version()],
        **{name: [version(name)] for name in packages},
    }
