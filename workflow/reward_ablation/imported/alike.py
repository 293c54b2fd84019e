"""Checks of what a comparison takes for granted of imported runs, as far as their files show it.

`results` hands each run of an import to `RunsSeen`, and `answers` compares all models' answers by `digest_of`.

No run counts twice: two seeds with the same completions would make an interval that is far too short. And runs that are
compared differ in nothing but weights and seeds; where steps, problems or groups differ too, a sentence says so.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from hashlib import sha256
from typing import NamedTuple

import pyarrow as pa

from reward_ablation.analysis.words import counted
from reward_ablation.imported.rows import group_size
from reward_ablation.system.errors import StudyError

#: Length in characters from which a question within a prompt counts as the same question; a free choice.
SHORTEST = 20

#: An arm and a seed; the base model has no seed.
Model = tuple[str, int | None]


class Conditions(NamedTuple):
    """What one run did: its steps with completions, its problems, and its completions for a problem and step."""

    steps: frozenset[int]
    problems: frozenset[str]
    group: int


def refuse_doubles(sources: Iterable[tuple[str, Hashable]], what: str) -> None:
    """Refuse two keys of the YAML for one source of `what` (run or answers). `sources` are pairs of key and source."""
    keys: dict[Hashable, str] = {}
    for key, source in sources:
        if source in keys:
            raise StudyError(f"{key}: the same file as {keys[source]}; name the {what} of each model")
        keys[source] = key


def model_name(arm: str, seed: int | None) -> str:
    """`full seed 1`, or `base`."""
    return arm if seed is None else f"{arm} seed {seed}"


def digest_of(table: pa.Table, columns: Collection[str] = ("completion",)) -> bytes | None:
    """Digest of columns, by default of all completions; None where they are missing or all alike, and tell nothing."""
    if all(table[name].null_count or len(table[name].unique()) < 2 for name in columns):
        return None
    hashed = sha256()
    for value in (value for name in columns for value in table[name].to_pylist()):
        hashed.update(repr(value).encode(errors="surrogatepass") + b"\0")
    return hashed.digest()


class RunsSeen:
    """The runs that were read so far, by their completions and their conditions."""

    def __init__(self) -> None:
        self.conditions: dict[Model, Conditions] = {}
        self.same: list[str] = []
        self.prompts: set[str] = set()
        self._texts: dict[bytes, Model] = {}

    def add(self, arm: str, seed: int, table: pa.Table) -> None:
        """Add a run. A second run of its arm with the same completions is refused; another arm may have them."""
        if "prompt" in table.column_names:  # this project's own runs keep prompts with the training set
            self.prompts.update(map(_single_spaced, table["prompt"].unique().drop_null().to_pylist()))
        digest = digest_of(table)
        if digest is not None:
            first_arm, first_seed = self._texts.setdefault(digest, (arm, seed))
            if first_arm == arm and first_seed != seed:
                same = f"has the same completions as seed {first_seed}"
                raise StudyError(f"arms.runs.{arm}.seeds.{seed}: {same}; give each seed the files of a run of its own")
            if first_arm != arm:
                names = f"{model_name(arm, seed)} and {model_name(first_arm, first_seed)}"
                self.same.append(f"{names} have the same completions throughout.")
        steps, problems = (frozenset(table[name].unique().to_pylist()) for name in ("step", "problem_id"))
        self.conditions[arm, seed] = Conditions(steps, problems, group_size(table))

    def sentences(self) -> list[str]:
        """What differs between the runs beside weights and seeds."""
        words = list(self.same)
        last_steps = {model: max(each.steps) for model, each in self.conditions.items()}
        words += _different(last_steps, "Runs end at different steps")
        words += _different({model: each.group for model, each in self.conditions.items()}, "Group sizes differ")
        sparse = {
            model: f"{len(each.steps)} of {max(each.steps)}"
            for model, each in self.conditions.items()
            if len(each.steps) < max(each.steps)
        }
        if sparse:
            words.append(f"Steps with completions: {_by_value(sparse)}. Curves and means are of these steps alone.")
        problems = [each.problems for each in self.conditions.values()]
        every, shared = frozenset().union(*problems), frozenset.intersection(*problems)
        if len(shared) < len(every):
            words.append(
                f"Of {counted(len(every), 'training problem')} {len(shared)} are in every run; training rewards of "
                "different problems differ for that reason, too."
            )
        return words

    def trained_on(self, questions: set[str]) -> list[str]:
        """A sentence where questions of the evaluation stand whole in a training prompt; short ones may by chance."""
        text = "\0".join(self.prompts)
        shared = sum(question in text for question in map(_single_spaced, questions) if len(question) >= SHORTEST)
        what = "stand in prompts of the training, too: their answers may have been learned"
        return [f"{shared} of {counted(len(questions), 'question')} of the evaluation {what}."] if shared else []


def _single_spaced(text: str) -> str:
    """A text with single spaces."""
    return " ".join(text.split())


def _different(values: dict[Model, int], what: str) -> list[str]:
    return [f"{what}: {_by_value(values)}."] if len(set(values.values())) > 1 else []


def _by_value(values: dict[Model, int] | dict[Model, str]) -> str:
    """`6 (full seeds 0 1), 4 (no_format seed 0)`."""
    grouped: dict[int | str, dict[str, list[str]]] = {}
    for (arm, seed), value in values.items():
        grouped.setdefault(value, {}).setdefault(arm, []).append(str(seed))
    return ", ".join(
        f"{value} ("
        + ", ".join(f"{arm} seed{'s' * (len(seeds) > 1)} {' '.join(seeds)}" for arm, seeds in arms.items())
        + ")"
        for value, arms in grouped.items()
    )
