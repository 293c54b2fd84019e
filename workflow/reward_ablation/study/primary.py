"""The primary question of a study, and the record of when it was declared.

`study.resolve` reads the config's question here, and a start declares it before its first job (`start.declarations`). A
comparison that was named before the first run is a test; one that was picked afterwards is a finding to be tested
again. Runs have the time in their own records, too (`study.standing`), which restore it if `study.json` is lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationError

from reward_ablation.config.designs import arms_here
from reward_ablation.config.sections.questions import Mode, metrics_of_mode
from reward_ablation.config.study_config import StudyConfig
from reward_ablation.spec.canonical import key_of
from reward_ablation.study.partial import listed
from reward_ablation.study.standing import Began, Recorded, Since, number_begun, recovered, when

#: How many contrasts a line names. Further contrasts are counted.
MOST_NAMED = 4


class Contrast(Recorded):
    """An arm, and the arm that it is compared with."""

    arm: str
    against: str

    def __str__(self) -> str:
        return f"{self.arm} against {self.against}"


class Question(Recorded):
    """What a study was made for. Records of earlier versions lack `measured`, or `arm_keys` and `measured`."""

    dataset: str
    mode: Mode
    metric: str
    contrasts: list[Contrast]
    arm_keys: dict[str, str] = Field({})  # keys of its arms, by name
    measured: dict[str, str] = Field({})  # keys of what its other names stand for (`specs_of_config.keys_of_measured`)
    #: Keys of all arms of the study, by name; in a record those that it had when the question was declared. They lend
    #: variance between seeds to the contrasts, and have no part in the question's key. Earlier versions lack it.
    arms: dict[str, str] = Field({})

    def pair(self, contrast: Contrast) -> tuple[str, str]:
        """A contrast as a pair of keys of arms; of their names in a record of an earlier version."""
        key = self.arm_keys
        return key.get(contrast.arm, contrast.arm), key.get(contrast.against, contrast.against)

    @property
    def pairs(self) -> set[tuple[str, str]]:
        """The contrasts as pairs."""
        return {self.pair(each) for each in self.contrasts}

    @property
    def key(self) -> str:
        """First 8 hex digits of the question's digest. Names of arms and the order of contrasts do not count."""
        content = self.model_dump(include={"dataset", "mode", "metric"} | ({"measured"} if self.measured else set()))
        return key_of({**content, "contrasts": sorted(map(list, self.pairs))})

    def by_names(self, *fields: str) -> Self:
        """The question without these `fields`, of `arm_keys` and `measured`, as earlier versions recorded it."""
        return self.model_copy(update={name: {} for name in fields})

    @property
    def keys(self) -> list[str]:
        """Its key, and the keys that earlier versions gave it: without `measured`, and by names alone."""
        return [each.key for each in (self, self.by_names("measured"), self.by_names("arm_keys", "measured"))]

    def with_keys(self, keys: Mapping[str, str], measured: Mapping[str, str]) -> Question:
        """The same question with the keys of its arms and of what it measures. `keys` has the keys of all arms."""
        named = {name for each in self.contrasts for name in (each.arm, each.against)}
        of_arms = {name: key for name, key in keys.items() if name in named}
        return self.model_copy(update={"arm_keys": of_arms, "measured": dict(measured), "arms": dict(keys)})

    def __str__(self) -> str:
        named = named_contrasts(self.contrasts) or "no comparison of two arms"
        return f"{self.metric} on {self.dataset} ({self.mode}): {named}"


class Declared(Question, Since):
    """A question with its time. `digest` is its key as declared, which records of runs have."""

    digest: str = ""

    def declares(self, question: Question) -> bool:
        """Whether this is the declaration of a question."""
        if not self.arm_keys and not self.measured:
            return self.declared is not None and self.digest in question.keys
        lacking = [name for name in ("arm_keys", "measured") if not getattr(self, name)]
        return self.declared is not None and self.key == question.by_names(*lacking).key


class Primary(Declared):
    """The present question. `earlier` are the questions that were replaced when runs had begun, the oldest first."""

    earlier: list[Declared] = Field([])

    @property
    def replaced(self) -> list[Declared]:
        """Questions that were declared before this one. The others of `earlier` stood before this one was put back."""
        return [each for each in self.earlier if (each.declared or "") <= (self.declared or "")]


def recorded_primary(written: Any) -> Primary | None:
    """The declaration in the content of a `study.json`; None if there is none, or it cannot be read."""
    try:
        return Primary.model_validate(written["primary"])
    except (ValidationError, KeyError, TypeError):
        return None


def recovered_primary(question: Question, began: Began) -> Primary | None:
    """The declaration that a lost `study.json` had of this question, by the records of runs; None if they have none."""
    for key in question.keys:
        if found := recovered("primary", key, began()):
            return Primary(**question.model_dump() | {"arms": found.arms}, digest=key, **found.since)
    return None


def without_added_arms(question: Question, before: Primary | None, runs: Path) -> Question:
    """A question without the default contrasts of arms that were added after runs had begun: these are exploratory."""
    if before is None:
        return question
    like = question if before.arm_keys else question.by_names("arm_keys")
    kept = [each for each in question.contrasts if like.pair(each) in before.pairs]
    smaller = question.model_copy(update={"contrasts": kept}).with_keys(question.arms, question.measured)
    is_smaller = 0 < len(kept) < len(question.contrasts) and before.declares(smaller)
    return smaller if is_smaller and number_begun(runs) else question


def declare_primary(question: Question, before: Primary | None, runs: Path) -> Primary:
    """The declaration to record: the one on record (`before`) if it declares the question, else one of now."""
    present = question.model_dump()
    if before is not None and before.declares(question):
        new = {"arm_keys", "measured"}
        if question.arms != before.arms and not number_begun(runs):  # the folder is read only where arms differ
            new.add("arms")
        return before.model_copy(update=question.model_dump(include=new) | {"contrasts": question.contrasts})
    now = declared_now(runs)
    earlier = [] if before is None else before.earlier
    if before is not None and before.declared is not None and (now.runs_then or before.runs_then):
        earlier = [*earlier, Declared.model_validate(before.model_dump())]
    put_back = next((each for each in earlier if each.declares(question)), None)
    if put_back is not None:
        others = [each for each in earlier if each is not put_back]
        return Primary(**present | {"arms": put_back.arms}, digest=put_back.digest, earlier=others, **put_back.since)
    return Primary(**present, digest=question.key, earlier=earlier, **now.since)


def declared_now(runs: Path) -> Since:
    """The present time, with the number of runs that have begun in the folder of a study's runs."""
    return Since(declared=utc_now(), runs_then=number_begun(runs), in_runs=True)


def utc_now() -> str:
    """The present time in UTC, to the second: `2026-01-31T12:00:00Z`."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def arms_since(question: Question, declared: Question) -> dict[str, list[str]]:
    """Arms added or edited since a declaration, and arms taken out; none where an earlier version recorded no arms."""
    then, now = declared.arms, question.arms
    added = [arm for arm, key in now.items() if then and key not in then.values()]
    removed = [arm for arm, key in then.items() if key not in now.values() and arm not in now]
    return {"added_arms": added, "removed_arms": removed}


def declaration_text(primary: Primary, coming: bool = False) -> str:
    """When a question was declared, in words. `coming` says that the declaration is not on record yet."""
    changed = bool(primary.runs_then and primary.replaced)
    verb = "changed" if changed else "declared"
    since = f"to be {verb} at the next start" if coming else f"{verb} {primary.declared}"
    return f"{since}, {when(primary.runs_then)}" + (f"; {changes(primary.replaced[-1], primary)}" if changed else "")


def changes(before: Question, after: Question) -> str:
    """The differences between two questions, in words."""
    parts = [
        f"{name} was {getattr(before, name)}"
        for name in ("dataset", "mode", "metric")
        if getattr(before, name) != getattr(after, name)
    ]
    names = {key: name for name, key in after.arm_keys.items()}
    present = {name: names.get(key, name) for name, key in before.arm_keys.items()}  # arms that only have a new name
    contrasts = [
        Contrast(arm=present.get(each.arm, each.arm), against=present.get(each.against, each.against))
        for each in before.contrasts
    ]
    for change, these, others in (("added", after.contrasts, contrasts), ("taken out", contrasts, after.contrasts)):
        if only_here := [each for each in these if each not in others]:
            parts.append(f"{change}: {named_contrasts(only_here)}")
    if edited := [name for name, key in after.arm_keys.items() if before.arm_keys.get(name, key) != key]:
        parts.append(f"other weights or settings: {', '.join(edited)}")
    for name, key in after.measured.items():
        if getattr(before, name) == getattr(after, name) and before.measured.get(name, key) != key:
            parts.append(f"{name} {getattr(after, name)} is another one under the same name")
    return "; ".join(parts)


def named_contrasts(contrasts: Sequence[Contrast]) -> str:
    """The first contrasts in words, such as `b, c against a`, and the number of the others."""
    if len({contrast.against for contrast in contrasts}) == 1:
        return f"{listed([contrast.arm for contrast in contrasts], MOST_NAMED)} against {contrasts[0].against}"
    return listed(contrasts, MOST_NAMED)


def question_of(study: StudyConfig, arms: Sequence[str]) -> Question:
    """The primary question of a config, with defaults filled in and checked. `arms` are the names of all arms."""
    written = study.primary
    dataset = written.dataset or next(iter(study.data.evaluation))
    mode = written.mode or ("greedy" if study.evaluation.greedy else "sampled")
    metrics = metrics_here(study, "primary", dataset, mode)
    metric = written.metric or next(name for name in ("accuracy_strict", *study.evaluation.metrics) if name in metrics)
    check_metric("primary", mode, metric, metrics)
    return Question(dataset=dataset, mode=mode, metric=metric, contrasts=_contrasts(study, arms))


def metrics_here(study: StudyConfig, where: str, dataset: str, mode: Mode) -> list[str]:
    """Metrics of a mode. Refuses an unknown data set and a mode that is switched off, at the key `where`."""
    datasets = list(study.data.evaluation)
    if dataset not in datasets:
        raise ValueError(f"{where}.dataset: unknown data set '{dataset}'; data sets: {', '.join(datasets)}")
    if mode == "greedy" and not study.evaluation.greedy:
        raise ValueError(f"{where}.mode: greedy is switched off; set evaluation.greedy to true, or mode to sampled")
    if mode == "sampled" and not study.evaluation.samples:
        raise ValueError(f"{where}.mode: sampled is switched off; set evaluation.samples above 0, or mode to greedy")
    return metrics_of_mode(study.evaluation, mode)


def check_metric(where: str, mode: Mode, metric: str, metrics: Sequence[str]) -> None:
    """Refuse a metric that a mode does not have, at the key `where`."""
    if metric not in metrics:
        raise ValueError(f"{where}.metric: unknown metric {metric!r}; metrics in mode {mode}: {', '.join(metrics)}")


def _contrasts(study: StudyConfig, arms: Sequence[str]) -> list[Contrast]:
    """The contrasts of a config. If the config lists none, each other arm is compared with the baseline."""
    baseline = study.baseline or arms[0]
    listed = study.primary.contrasts
    if listed is None:
        return [Contrast(arm=arm, against=baseline) for arm in arms if arm != baseline]
    contrasts: list[Contrast] = []
    for number, written in enumerate(listed):
        contrast = Contrast(arm=written.arm, against=written.against or baseline)
        for arm in (contrast.arm, contrast.against):
            if arm not in arms:
                raise ValueError(f"primary.contrasts.{number}: unknown arm '{arm}'; {arms_here(arm, arms)}")
        if contrast.arm == contrast.against:
            raise ValueError(f"primary.contrasts.{number}: {contrast}; name two arms that differ")
        if {contrast.arm, contrast.against} in [{other.arm, other.against} for other in contrasts]:
            raise ValueError(f"primary.contrasts.{number}: {contrast} is listed twice, in one order or the other")
        contrasts.append(contrast)
    return contrasts
