"""Table provenance, its page of the report, and the check that runs are alike."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from reward_ablation.analysis.provenance.words import sentence
from reward_ablation.analysis.study_file import ALL_ARMS, StudyFile
from reward_ablation.analysis.tables import COUNT, FLAG, TEXT, columns, write_table_page
from reward_ablation.study.provenance import SURROUNDING, Quantities
from reward_ablation.study.run_folder import RECORD
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import atomic_path, sha256

SCHEMAS = {
    "provenance": columns((TEXT, "quantity value"), (FLAG, "mixed"), (COUNT, "runs split_runs"), (TEXT, "arms")),
}


def provenance(study: StudyFile, values: dict[str, Quantities]) -> pd.DataFrame:
    """One row per quantity and value, in the order of the runs.

    `values` has the `quantities` of each run, by its folder. Of the columns, `mixed` says whether the study has several
    values of this quantity, and `runs` counts the runs with this value. `split_runs` counts those among them that have
    a second value, because an interruption moved them.
    """
    names = list(dict.fromkeys(quantity for of_run in values.values() for quantity in of_run))
    rows = []
    for quantity in names:
        of_runs = {folder: of_run.get(quantity, ["none"]) for folder, of_run in values.items()}
        distinct = list(dict.fromkeys(value for of_run in of_runs.values() for value in of_run))
        for value in distinct:
            folders = [folder for folder, of_run in of_runs.items() if value in of_run]
            rows.append(
                {
                    "quantity": quantity,
                    "value": value,
                    "mixed": len(distinct) > 1,
                    "runs": len(folders),
                    "split_runs": sum(len(of_runs[folder]) > 1 for folder in folders),
                    "arms": _arms(study, folders),
                }
            )
    return pd.DataFrame(rows)


def _arms(study: StudyFile, folders: list[str]) -> str:
    """Names of the arms with a run in one of the folders."""
    chosen = set(folders)
    arms = {run.arm for run in study.runs if run.folder in chosen}
    names = [name for name in study.arm_names if name in arms]
    return ALL_ARMS if len(names) == len(study.arms) else ", ".join(names)


def check_not_mixed(table: pd.DataFrame) -> None:
    """Refuse a study whose runs differ in the code that decides numbers, in packages or in hardware."""
    if (table["mixed"] & (table["quantity"] != SURROUNDING)).any():
        raise StudyError(
            f"runs of different provenance ({sentence(table)}); delete the runs that are to be trained again, or set "
            "mixed_provenance: tell"
        )


def write_digests(folders: Iterable[str], root: Path, path: Path) -> None:
    """Write the digest of each run's record for `sha256sum --check`; the file is in a folder of the results folder.

    `folders` are those of the runs, below the results folder `root`.
    """
    lines = [f"{sha256(root / folder / RECORD)}  ../{folder}/{RECORD}" for folder in sorted(folders)]
    with atomic_path(path) as temporary:
        temporary.write_text("\n".join(lines) + "\n")


def write_page(table: pd.DataFrame, study: StudyFile, path: Path) -> None:
    """Write the table with its sentence as HTML, for the report."""
    heading = f"Provenance of the runs of {study.name}"
    write_table_page(table, heading, sentence(table), path)
