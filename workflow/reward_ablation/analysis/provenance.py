"""Table provenance: by which code, with which packages and on which hardware the runs of a study were trained.

The rule `tables_provenance` calls `write` before all other rules of tables, which wait for its digests of the runs.
Differences and claims ask it whether two arms were trained alike, and a look of a sequential study whether all were.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from reward_ablation.analysis.runs import read_runs
from reward_ablation.analysis.study_file import ALL_ARMS, StudyFile, StudyRun
from reward_ablation.analysis.tables import COUNT, FLAG, TEXT, columns, write_table_page, write_tables
from reward_ablation.analysis.words import counted
from reward_ablation.study.provenance import IMPORTED, MAY_DIFFER, Quantities, quantities
from reward_ablation.study.run_folder import RECORD
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import atomic_path, sha256

#: mixed: whether runs differ in the quantity; split_runs: runs that have a second value, as an interruption moved them.
SCHEMAS = {"provenance": columns((TEXT, "quantity value"), (FLAG, "mixed"), (COUNT, "runs split_runs"), (TEXT, "arms"))}

#: Quantities that a sentence names also where all runs agree. The other quantities are in the table.
ALWAYS_NAMED = ["code", IMPORTED, "python", "torch", "transformers", "trl", "machine", "GPUs"]

#: Most arms that a sentence names; it counts the rest.
MOST_ARMS = 4


def write(study: StudyFile, options: Namespace) -> None:
    """Write the table, its page of the report, and the digests that the other rules of tables wait for."""
    root = options.study.parent
    records = read_runs(study, root)
    table = provenance(study, {folder: quantities(record.model_dump()) for folder, record in records.items()})
    if options.mixed_provenance == "refuse":
        check_not_mixed(table)
    write_tables([("provenance", table)], SCHEMAS, options.output)
    heading = f"Provenance of the runs of {study.name}"
    write_table_page(table, heading, sentence(table), options.output / "provenance.html")
    write_digests(records, root, options.output / "runs.sha256")


def provenance(study: StudyFile, values: dict[str, Quantities]) -> pd.DataFrame:
    """One row per quantity and value, from the `quantities` by run's folder; an interrupted run may have two values."""
    names = list(dict.fromkeys(quantity for of_run in values.values() for quantity in of_run))
    rows = []
    for quantity in names:
        of_runs = {
            folder: of_run.get(quantity, ["not known" if IMPORTED in of_run else "none"])
            for folder, of_run in values.items()
        }
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
    if (table["mixed"] & ~table["quantity"].isin(MAY_DIFFER)).any():
        raise StudyError(
            f"runs of different provenance ({sentence(table)}); delete the runs that are to be trained again, or set "
            "mixed_provenance: tell"
        )


def difference_in_provenance(arm: list[StudyRun], baseline: list[StudyRun], values: dict[str, Quantities]) -> str:
    """`same`, `differs in ...` or `not known`: runs are compared by seed, or if seeds differ each with each."""
    of_seed = {run.seed: values[run.folder] for run in baseline}
    pairs = [(values[run.folder], of_seed[run.seed]) for run in arm if run.seed in of_seed]
    if {run.seed for run in arm} != of_seed.keys():
        pairs = [(values[run.folder], other) for run in arm for other in of_seed.values()]
    if any(IMPORTED in one or IMPORTED in other for one, other in pairs):
        return "not known"
    names = dict.fromkeys(name for one, other in pairs for name in [*one, *other])
    differing = [
        name for name in names if any(set(one.get(name, [])) != set(other.get(name, [])) for one, other in pairs)
    ]
    return f"differs in {', '.join(differing)}" if differing else "same"


def write_digests(folders: Iterable[str], root: Path, path: Path) -> None:
    """Write the digest of each run's record for `sha256sum --check`, into a folder of the results folder `root`."""
    lines = [f"{sha256(root / folder / RECORD)}  ../{folder}/{RECORD}" for folder in sorted(folders)]
    with atomic_path(path) as temporary:
        temporary.write_text("\n".join(lines) + "\n")


def sentence(table: pd.DataFrame) -> str:
    """The quantities of `ALWAYS_NAMED` that all runs share; where runs differ, all the differences come first."""
    texts = []
    for quantity, rows in table[table["mixed"]].groupby("quantity", sort=False):
        parts = [
            f"{value} ({counted(runs, 'run')}: {_few(arms)})"
            for value, runs, arms in zip(rows["value"], rows["runs"], rows["arms"], strict=True)
        ]
        texts.append(f"{quantity} " + ", ".join(parts))
    same = table[~table["mixed"]].set_index("quantity")["value"]
    common = ", ".join(_named(name, same[name]) for name in ALWAYS_NAMED if name in same.index)
    if not texts:
        runs = int(table["runs"].max())
        return f"{'one run' if runs == 1 else f'the same for all {runs} runs'}: {common}"
    return f"mixed: {'; '.join(texts)}" + (f". The same for all: {common}" if common else "")


def _named(quantity: str, value: str) -> str:
    if quantity == "GPUs" and value == "none":
        return "no GPU"
    return value if quantity in ("machine", "GPUs") else f"{quantity} {value}"


def _few(arms: str) -> str:
    names = arms.split(", ")
    more = len(names) - MOST_ARMS
    return arms if more <= 0 else f"{', '.join(names[:MOST_ARMS])} and {more} more"
