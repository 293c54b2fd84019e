"""Completions of one run, ready to be written: with totals, right answers, and scores of further components.

`results` calls `read_run` for each run of another system. It links runs of this project as they are instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, log10
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reward_ablation.config.base import NAME, PATTERNS_IN_WORDS
from reward_ablation.config.sections.training import Component
from reward_ablation.data.problems import as_text
from reward_ablation.data.reading import missing_word
from reward_ablation.imported.config import Golds, ImportConfig, Source
from reward_ablation.imported.readers import reader
from reward_ablation.imported.readers.table import rows_of
from reward_ablation.imported.rows import ROLLOUTS, SCORE, Rollouts, check_ids, checked, group_size, larger_groups
from reward_ablation.rewards.load import load_component
from reward_ablation.scores.score import score_answers
from reward_ablation.study.resolve import TAKEN
from reward_ablation.study.reward_import import planned_arguments
from reward_ablation.system.errors import StudyError

#: Largest difference between a total and the weighted sum of the scores that counts as rounding, for logs in float32.
#: It is relative to the largest total, or absolute if no total is above 1.
ROUNDING = 1e-6

#: Columns that a component which scores imported completions may ask for, with the columns of `ROLLOUTS` it gets.
ASKED = {"completions": "completion", "problem_id": "problem_id", "question": "prompt", "answer": "gold"}


@dataclass
class ImportedRun:
    """A run as its files say. `group` is its commonest number of completions a prompt. `notes` say how it was read."""

    rollouts: Rollouts
    weights: dict[str, float]
    group: int
    notes: list[str]

    @property
    def steps(self) -> int:
        """The last step that has completions."""
        return int(pc.max(self.rollouts.table["step"]).as_py())


def read_run(config: ImportConfig, home: Path, source: Source, arm: str) -> ImportedRun:
    """Read and check a run of an arm."""
    weights: Mapping[str, float] | None = config.arms.runs[arm].weights
    where = f"arms.runs.{arm}"
    read: Rollouts = reader(source.format).read_rollouts(source.path, source.options)
    table = checked("rollouts", read.table, str(source.path))
    if not read.components:
        raise StudyError(f"{source.path}: no scores of a component; there is nothing to compare")
    taken = TAKEN["components"]
    if odd := [name for name in (*read.components, *config.components) if not re.match(NAME, name) or name in taken]:
        origin, how = (source.path, " (by scores: {NAME: FIELD})") if odd[0] in read.components else ("components", "")
        renaming = f"a component is called {odd[0]!r}; give it{how} a name of {PATTERNS_IN_WORDS[NAME]}"
        raise StudyError(f"{origin}: {renaming} that is none of {', '.join(taken)}")
    notes = list(read.missing)
    table = table if config.golds is None else with_golds(table, config.golds, home)
    notes += check_ids(table, "prompt", str(source.path), source.format != "table")
    if weights is None:
        weights, words = fitted_weights(table, read.components, where)
        notes.append(words)
    if unknown := [name for name in weights if name not in (*read.components, *config.components)]:
        here = ", ".join(read.components)
        raise StudyError(f"{where}.weights.{unknown[0]}: {source.path} has no scores of it; components there: {here}")
    if missing := [name for name in read.components if name not in weights]:
        raise StudyError(f"{where}.weights: no weight of {missing[0]}; give 0 if the arm was not trained on it")
    for name, component in config.components.items():
        if name in read.components:
            raise StudyError(
                f"components.{name}: {source.path} has scores of that name; give the component another name"
            )
        scores = pa.array(scored_again(table, name, component, home), pa.float64())
        table = table.append_column(f"{SCORE}{name}", scores)
    weights = {name: float(weights.get(name, 0.0)) for name in (*read.components, *config.components)}
    table, of_total = with_total(table, weights)
    notes += larger_groups(table)
    unknown_shares = {f"advantage_{name}": pa.nulls(len(table), pa.float64()) for name in weights}
    table = pa.table({**{name: table[name] for name in table.column_names}, **unknown_shares})
    rollouts = Rollouts(table, read.missing, read.metrics)
    return ImportedRun(rollouts, weights, group_size(table), [*notes, *of_total])


def fitted_weights(table: pa.Table, names: list[str], where: str) -> tuple[dict[str, float], str]:
    """Weights by least squares of the total on the scores, and the fit in words."""
    scores = np.column_stack([table[f"{SCORE}{name}"].to_numpy(zero_copy_only=False) for name in names])
    total = table["total"].to_numpy(zero_copy_only=False).astype(float)
    known = ~np.isnan(total) & ~np.isnan(scores).any(axis=1)
    scores, total = scores[known], total[known]
    refusal = f"{where}.weights: name the weight of each component ({', '.join(names)})"
    if not known.any():
        raise StudyError(f"{refusal}; the files have no total from which they would follow")
    if np.linalg.matrix_rank(scores) < len(names):
        raise StudyError(f"{refusal}; the scores do not determine them, as some are 0 or depend on each other")
    weights = np.linalg.lstsq(scores, total, rcond=None)[0]
    residual, scale = float(np.abs(scores @ weights - total).max()), max(1.0, float(np.abs(total).max()))
    if residual > ROUNDING * scale:
        raise StudyError(f"{refusal}; the total is no weighted sum of the scores (it is off by up to {residual:.2g})")
    # Six decimals, or as many as change no total by more than rounding; the last bits of a fit differ between seeds.
    decimals = [6 + max(0, ceil(log10(largest / scale))) for largest in np.abs(scores).max(axis=0)]
    found = {name: round(float(fit), to) + 0.0 for name, fit, to in zip(names, weights, decimals, strict=True)}
    shown = ", ".join(f"{name} {weight:g}" for name, weight in found.items())
    return found, f"Weights were estimated from total and scores: {shown} (largest residual {residual:.1g})."


def with_total(table: pa.Table, weights: Mapping[str, float]) -> tuple[pa.Table, list[str]]:
    """The table with a total in each row, the weighted sum where the files have none, and sentences on it."""
    # As in TRL, a component without a score adds nothing. A row has no total if no component with a weight scored it.
    columns = [table[f"{SCORE}{name}"].to_numpy(zero_copy_only=False) for name, weight in weights.items() if weight]
    scores = np.column_stack([*columns, np.full(len(table), np.nan)])  # a column, also where all weights are 0
    used = np.array([weight for weight in weights.values() if weight] + [0.0])
    total = np.where(np.isnan(scores).all(axis=1), np.nan, np.nan_to_num(scores) @ used)
    if table["total"].null_count == len(table):
        index = table.column_names.index("total")
        table = table.set_column(index, "total", pa.array(total, pa.float64(), from_pandas=True))
        return table, ["The files have no total: it is the sum of the scores times the weights."]
    written = table["total"].to_numpy(zero_copy_only=False).astype(float)
    absent = int((np.isnan(written) & ~np.isnan(total)).sum())
    lacking = f"{absent} of {len(table)} completions have scores and no total; they have no part in what is said of it."
    notes = [lacking] if absent else []
    apart = np.nan_to_num(np.abs(written - total)).max(initial=0.0)
    if apart <= ROUNDING * max(1.0, float(np.nan_to_num(np.abs(written)).max())):
        return table, notes
    return table, [
        *notes,
        f"The files' total differs from the weighted sum of the scores by up to {apart:.3g}; the total is theirs.",
    ]


def with_golds(table: pa.Table, golds: Golds, home: Path) -> pa.Table:
    """The table with the right answers of the file `golds` in place of its own; empty or a missing word is none."""
    answers: dict[str, str] = {}
    for where, row in rows_of(home / golds.path):
        if absent := [name for name in (golds.key, golds.answer) if name not in row]:
            raise StudyError(f"golds: {where}: no column {absent[0]!r}; columns here: {', '.join(row)}")
        key, answer = (as_text(row[name], f"golds: {where}: {name}") for name in (golds.key, golds.answer))
        answer = (answer or "").strip()
        if not key or not answer or missing_word(answer):
            continue  # as in a set of problems: no right answer
        if answers.setdefault(key, answer) != answer:
            raise StudyError(f"golds: {where}: another answer to {key[:60]!r} stands above; take one out")
    found = [answers.get(key) for key in table[golds.by].to_pylist()]
    if not any(found):
        what = f"no {golds.by} of the runs is in its column {golds.key} with a right answer"
        raise StudyError(f"golds: {golds.path}: {what}; correct golds.key or golds.by")
    return table.set_column(table.column_names.index("gold"), "gold", pa.array(found, pa.string()))


def scored_again(table: pa.Table, name: str, component: Component, home: Path) -> np.ndarray:
    """Scores of all completions by a component that was not part of the training."""
    asked = planned_arguments(component.function, component.parameters, home).asked
    for column in asked:
        asking = f"components.{name}: {component.function} asks for {column}"
        if column not in ASKED:
            raise StudyError(f"{asking}, which imported runs do not have")
        if missing := table[ASKED[column]].null_count:
            what = "; name a file with them under golds" if column == "answer" else ""
            raise StudyError(f"{asking}, but {missing} of {len(table)} completions have no {ASKED[column]}{what}")
    rows = table.select([*ROLLOUTS]).to_pandas()
    answers = rows.rename(columns={"rollout": "sample"}).assign(mode="sampled")
    problems = rows.drop_duplicates("problem_id")[["problem_id", "prompt", "gold"]]
    problems = problems.rename(columns={"problem_id": "id", "prompt": "question", "gold": "answer"})
    function = load_component(component.function, component.parameters, home, name)
    return score_answers(answers, problems, {name: function})[name].to_numpy(dtype=float)
