"""YAML of a study whose runs were trained elsewhere: its keys, and their checks.

`reward-ablation import` reads it. Such a study names files instead of what to train.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from reward_ablation.config.base import SEEDS_ONCE, Folder, Line, Name, Section, Seed
from reward_ablation.config.config_errors import validate_spec
from reward_ablation.config.designs import Weights, arms_here
from reward_ablation.config.sections.questions import ClaimOnArms, Figures, PrimaryQuestion, Statistics
from reward_ablation.config.sections.training import Component
from reward_ablation.imported.readers import FORMATS
from reward_ablation.study.resolve import TAKEN
from reward_ablation.system.errors import StudyError

#: TRL's ways to combine components, with its default first.
Aggregation = Literal["sum_then_normalize", "normalize_then_sum"]


class Source(NamedTuple):
    """Files of a run or of a model's answers: their path, their format, and the options of its reader."""

    path: Path
    format: str
    options: dict[str, Any]

    @property
    def identity(self) -> tuple[str, str]:
        """What makes two sources one: the real path, and the options, by which one file may hold several runs."""
        return str(self.path.resolve()), repr(sorted(self.options.items()))


class ArmRuns(Section):
    """The runs of an arm. `seeds` has the file or folder of each seed, or names seeds in one file, `rollouts.path`."""

    seeds: Annotated[dict[Seed, Line] | list[Seed], SEEDS_ONCE] = Field(min_length=1)
    weights: Weights | None = None
    rollouts: dict[str, Any] | None = None


class ImportedArms(Section):
    """The arms and their runs."""

    design: Literal["imported"]
    baseline: Name | None = None
    runs: dict[Name, ArmRuns] = Field(min_length=1)


class AnswersOf(Section):
    """The evaluated models: the file of each seed of an arm and of `base`, read as `files` says, else the section."""

    dataset: Name = "evaluation"
    runs: dict[Name, Annotated[dict[Seed, Line] | Line, SEEDS_ONCE]]
    files: dict[Name, dict[str, Any]] = Field(default_factory=dict)


class Golds(Section):
    """A file with right answers in its columns `key` and `answer`; the runs' column `by` is looked up in `key`."""

    path: Line
    by: Literal["prompt", "problem_id"]
    key: Line
    answer: Line


class ImportConfig(Section):
    """A study of runs that were trained elsewhere."""

    name: Name
    results: Folder | None = None
    arms: ImportedArms
    rollouts: dict[str, Any] = Field(default_factory=dict)
    evaluation: dict[str, Any] | None = None
    golds: Golds | None = None
    components: dict[Name, Component] = Field(default_factory=dict)
    aggregation: Aggregation | None = None
    model: Line | None = None
    training_data: Line | None = None
    primary: PrimaryQuestion = PrimaryQuestion()
    claims: dict[Name, ClaimOnArms] = Field(default_factory=dict)
    bootstrap: int = Field(2000, ge=100, le=1_000_000)
    confidence: float = Field(0.95, gt=0, lt=1)
    statistics: Statistics = Statistics()
    figures: Figures = Figures()

    @property
    def root(self) -> str:
        """The results folder, below the folder of the YAML."""
        return self.results or f"results/{self.name}"

    @property
    def baseline(self) -> str:
        """The arm that the others are compared with."""
        return self.arms.baseline or next(iter(self.arms.runs))

    @property
    def answers(self) -> AnswersOf | None:
        """The section `evaluation` without the format and the options of its reader."""
        if self.evaluation is None:
            return None
        own = {key: value for key, value in self.evaluation.items() if key in AnswersOf.model_fields}
        checked: AnswersOf = validate_spec(AnswersOf, own, "evaluation")
        return checked

    def rollouts_of(self, home: Path) -> dict[tuple[str, int], Source]:
        """Files of the runs by arm and seed. Relative paths start from `home`, the folder of the YAML."""
        found = {}
        for arm, runs in self.arms.runs.items():
            where = f"arms.runs.{arm}.rollouts" if runs.rollouts is not None else "rollouts"
            kind, options = _format(runs.rollouts if runs.rollouts is not None else self.rollouts, where, "rollouts")
            shared = options.pop("path", None)
            if isinstance(runs.seeds, list) == (shared is None) or (shared is not None and kind != "table"):
                raise StudyError(
                    f"arms.runs.{arm}.seeds: give each seed its path, {{0: PATH}}; or list seeds, and give "
                    f"{where}.path for one table with all runs"
                )
            for seed in runs.seeds:
                path = shared if isinstance(runs.seeds, list) else runs.seeds[seed]
                only = {"only": {"arm": arm, "seed": seed}} if isinstance(runs.seeds, list) else {}
                found[arm, seed] = Source(home / str(path), kind, {**options, **only})
        return found

    def answers_of(self, home: Path) -> dict[tuple[str, int | None], Source]:
        """Files of answers by arm and seed; the base model's file has the arm `base` and no seed."""
        written, found = self.answers, {}
        if written is None or self.evaluation is None:
            return {}
        options = {key: value for key, value in self.evaluation.items() if key not in AnswersOf.model_fields}
        known = [*self.arms.runs, "base"]
        for key, arm in [*(("runs", arm) for arm in written.runs), *(("files", arm) for arm in written.files)]:
            if arm not in known:
                raise StudyError(f"evaluation.{key}: unknown arm '{arm}'; {arms_here(arm, known)}")
        for arm, runs in written.runs.items():
            where = f"evaluation.files.{arm}" if arm in written.files else "evaluation"
            kind, of_reader = _format(written.files.get(arm, options), where, "answers")
            if isinstance(runs, str) != (arm == "base"):
                raise StudyError(
                    f"evaluation.runs.{arm}: base has one path, and each arm a path for each seed, {{0: PATH}}"
                )
            if "questions" in of_reader:
                of_reader["questions"] = str(home / str(of_reader["questions"]))
            for seed, path in [(None, runs)] if isinstance(runs, str) else runs.items():
                found[arm, seed] = Source(home / path, kind, of_reader)
        for arm, of_arm in self.arms.runs.items():
            if missing := [seed for seed in of_arm.seeds if (arm, seed) not in found]:
                raise StudyError(
                    f"evaluation.runs.{arm}: no answers of seed {missing[0]}; name them, or leave the seed out"
                )
        extra = [key for key in found if key[0] != "base" and key[1] not in self.arms.runs[key[0]].seeds]
        if extra:
            raise StudyError(
                f"evaluation.runs.{extra[0][0]}.{extra[0][1]}: the arm has no such seed; name it in arms.runs"
            )
        return found

    def check_names(self) -> None:
        """Refuse a baseline or a contrast of unknown arms, and names that the workflow uses itself."""
        arms = list(self.arms.runs)
        if self.results is None and self.name in TAKEN["name"]:
            raise StudyError(f"name: {self.root} is a folder of the default study; give the study another name")
        if "base" in arms:
            raise StudyError("arms.runs.base: base is the model before training; give the arm another name")
        named = {"arms.baseline": self.baseline}
        for number, contrast in enumerate(self.primary.contrasts or []):
            named |= {f"primary.contrasts.{number}.arm": contrast.arm}
            named |= {f"primary.contrasts.{number}.against": contrast.against or self.baseline}
            if contrast.arm == (contrast.against or self.baseline):
                raise StudyError(f"primary.contrasts.{number}: compares {contrast.arm} with itself; name two arms")
        for key, arm in named.items():
            if arm not in arms:
                raise StudyError(f"{key}: unknown arm '{arm}'; {arms_here(arm, arms)}")


def _format(written: dict[str, Any], where: str, kind: str) -> tuple[str, dict[str, Any]]:
    """The format that a section names, and its other keys. `kind` is rollouts or answers."""
    options = dict(written)
    name = options.pop("format", None)
    if name not in FORMATS[kind]:
        raise StudyError(f"{where}.format: {name!r} is no format of {kind}; formats here: {', '.join(FORMATS[kind])}")
    return name, options
