"""By which code, with which packages and on which hardware the runs of a study were trained: one, or several."""

from __future__ import annotations

import html
from pathlib import Path

import pandas as pd

from reward_ablation.analysis.study_file import StudyFile, StudyRun
from reward_ablation.study.provenance import SURROUNDING, Quantities
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import atomic_path
from reward_ablation.system.html_page import PAGE

#: What all arms have in common has this for its arms; a blank is in no arm's name.
ALL_ARMS = "all arms"

#: Named in a sentence also where all runs agree; the others are in the table.
ALWAYS_NAMED = ["code", "python", "torch", "transformers", "trl", "machine", "GPUs"]

#: Arms that a sentence names before it counts the rest.
MOST_ARMS = 4


def provenance(study: StudyFile, values: dict[str, Quantities]) -> pd.DataFrame:
    """One row per quantity and value, in the order of the runs.

    Parameters
    ----------
    values : dict
        What `quantities` gives, by the run's folder.

    Returns
    -------
    Columns: quantity, value; mixed: whether the study has several values of this quantity; runs: how many have this
    value; split_runs: how many of these have another one too, since an interruption took them elsewhere; arms.
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
    with_one = {run.arm for run in study.runs if run.folder in set(folders)}
    names = [name for name in study.arm_names if name in with_one]
    return ALL_ARMS if len(names) == len(study.arms) else ", ".join(names)


def sentence(table: pd.DataFrame) -> str:
    """What the runs have in common, or first of all what they have not."""
    texts = []
    for quantity, rows in table[table["mixed"]].groupby("quantity", sort=False):
        parts = [
            f"{value} ({_count(runs, 'run')}: {_few(arms)})"
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


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def check_not_mixed(table: pd.DataFrame) -> None:
    """Refuse a study whose runs differ in the code that decides numbers, in packages or in hardware.

    Raises
    ------
    StudyError
    """
    if (table["mixed"] & (table["quantity"] != SURROUNDING)).any():
        raise StudyError(
            f"runs of different provenance ({sentence(table)}); delete the runs that are to be trained again, or set "
            "mixed_provenance: tell"
        )


def difference_in_provenance(arm: list[StudyRun], baseline: list[StudyRun], values: dict[str, Quantities]) -> str:
    """In what the runs that are compared differ: `same`, or `differs in ...`; only runs of one seed are compared."""
    of_seed = {run.seed: values[run.folder] for run in baseline}
    pairs = [(values[run.folder], of_seed[run.seed]) for run in arm if run.seed in of_seed]
    names = dict.fromkeys(name for one, other in pairs for name in [*one, *other])
    differing = [
        name for name in names if any(set(one.get(name, [])) != set(other.get(name, [])) for one, other in pairs)
    ]
    return f"differs in {', '.join(differing)}" if differing else "same"


def write_page(table: pd.DataFrame, study: StudyFile, path: Path) -> None:
    """Write the table with its sentence as HTML, for the report."""
    shown = table.to_html(index=False, border=0, justify="left")
    heading = f"Provenance of the runs of {html.escape(study.name)}"
    with atomic_path(path) as temporary:
        temporary.write_text(PAGE.format(heading=heading, sentence=html.escape(sentence(table)), table=shown))
