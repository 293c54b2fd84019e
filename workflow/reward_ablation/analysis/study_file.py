"""Content of `study.json`: the resolved study as tables, figures and the summary read it.

A start and its rule `describe` write the file for a trained study, `reward-ablation preview` for the finished part of
one, and `reward-ablation import` for runs from elsewhere. The stages behind it read this file in place of the config,
so that one code serves all three. `power` and `budget` read pilots by it.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from reward_ablation.analysis.words import from_to
from reward_ablation.config.sections.training import AGGREGATION, TRL_AGGREGATIONS
from reward_ablation.spec.run import ArmSpec, ImportedSpec
from reward_ablation.study.claims import DeclaredClaim
from reward_ablation.study.looks import ContrastAtLook, Look, Sequential
from reward_ablation.study.partial import without_diverged
from reward_ablation.study.primary import Contrast, Primary, Question
from reward_ablation.study.standing import as_runs_say, standing_at_begin
from reward_ablation.system.errors import StudyError
from reward_ablation.system.strict_text import load_json

#: Names of the base model and of all arms together in tables; no arm has such a name.
BASE, ALL_ARMS = "base", "all arms"

#: Score of a right answer, by function of components that score the answer alone. The parameter `correct` of
#: `three_way_verifier` replaces it.
RIGHT_ANSWER = {
    **{"correctness": 1.0, "boxed_answer": 1.0, "signed_answer": 1.0, "three_way_verifier": 1.0},
    **{"unit_tests": 1.0, "instructions": 1.0},
}

#: Score of any other answer, where it is not 0; None where there is more than one.
WRONG_ANSWER = {"signed_answer": -1.0, "three_way_verifier": None}

#: Parameters that replace the scores of answers that are not right, and their defaults, by function.
OTHER_ANSWERS = {"three_way_verifier": (("wrong", -1.0), ("missing", -0.5))}

#: Built-in metrics of which less is better; the study declares this of its own metrics.
BETTER_LOW = {"tokens", "truncated", "graders_differ"}


class Section(BaseModel):
    """A part of this file, or of a record of a run; keys that only other stages need are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class StudyArm(Section):
    """An arm with its resolved weights."""

    name: str
    weights: dict[str, float]
    combine: str | None = None
    #: Whether the arm is of `arms.extra`, beside those that the design makes.
    extra: bool = False

    @property
    def has_fixed_weights(self) -> bool:
        """Whether TRL combines the components, by the weights as they are."""
        return self.combine in (None, *TRL_AGGREGATIONS)


class StudyRun(Section):
    """A run that the study needs; arms with equal specs share one folder, unless their runs were trained elsewhere."""

    arm: str
    key: str
    seed: int
    folder: str
    spec: ArmSpec | ImportedSpec

    @property
    def trained_spec(self) -> ArmSpec:
        """The spec of a run that was trained here. Tables that need one are not made of imported runs."""
        assert isinstance(self.spec, ArmSpec)
        return self.spec

    @property
    def is_trained_on_total(self) -> bool:
        """Whether advantages are of the weighted total: no method combines, and TRL scales no component by itself."""
        each_scaled = self.spec.training.get(AGGREGATION) == TRL_AGGREGATIONS["gdpo"]
        return self.spec.combine is None and not (each_scaled and len(self.spec.taking_part) > 1)

    @property
    def name(self) -> str:
        """`{arm}-{key}/seed{seed}` of the arm that owns the run's folder."""
        return self.folder.removeprefix("runs/")


class OwnMetric(Section):
    """A metric of the study's own, as declared."""

    name: str
    range: tuple[float, float] | None = None
    higher_is_better: bool = True


class Preview(Section):
    """Marks a file of the finished part of a study: how many of the `planned` runs it has, and what is `missing`."""

    runs: int
    planned: int
    missing: list[str]
    caution: str


class StudyFile(Section):
    """What was planned: arms, runs and how they are to be compared."""

    name: str
    components: list[str]
    arms: list[StudyArm]
    runs: list[StudyRun]
    datasets: list[str]
    #: Files of answers by data set, below the study's folder, with `{run}` in place of a run's name.
    answers: dict[str, str]
    #: Files of scores by the study's own metrics, keyed as `answers`; empty without such metrics.
    scores: dict[str, str] = {}
    #: GPUs of a job that scores answers.
    scoring_gpus: int = 0
    #: Whether answers are judged as mathematics.
    mathematics: bool = True
    own_metrics: list[OwnMetric] = Field([], alias="metrics")
    #: Files of problems by data set.
    questions: dict[str, str]
    #: Each run keeps its model after each n-th step; 0: the final model only.
    keep_models: int = 0
    #: Files that runs are made of, by name: the record of the base model, and the training set.
    inputs: dict[str, str]
    #: Seeds that any arm has; `runs` has those of each arm.
    seeds: list[int]
    design: str
    baseline: str
    #: The arm that is rewarded at random.
    control: str | None = None
    #: The question that the study was made to answer, with the time of its declaration.
    primary: Primary
    #: Arms that were added after the question was declared. They lend it no variance between seeds.
    added_arms: list[str] = []
    #: Arms that the study had then and has no more.
    removed_arms: list[str] = []
    #: Claims that the tables judge, with the times of their declaration.
    claims: list[DeclaredClaim] = []
    #: Claims that were taken out after there were runs.
    withdrawn_claims: list[DeclaredClaim] = []
    #: Number of claims that stood when runs began, and that this file does not know.
    lost_claims: int = 0
    #: The looks of a sequential study, which test the primary differences after more and more seeds.
    sequential: Sequential | None = None
    #: None for the whole study.
    preview: Preview | None = None
    #: Sentences on diverged runs, and on what is missing without them; none if no run diverged.
    left_out: list[str] = []
    #: Of imported runs: sentences on how their files were read, and on what these lack.
    imported: list[str] = []
    #: Whether the base model was evaluated.
    has_base: bool = True
    #: Metrics of all tasks, tokens and truncated, that the answers lack.
    unmeasured: list[str] = []
    #: Resamples behind each interval.
    bootstrap: int
    confidence: float
    seed_variance: Literal["moderated", "per_arm"] = "moderated"  # whether arms borrow it from each other
    equivalence_margin: float | None = None  # of shares; None without tests of equivalence
    model: str
    training_data: str

    @model_validator(mode="before")
    @classmethod
    def _with_default_question(cls, written: Any) -> Any:
        """Give a file of an earlier version, which declares no question, the default one, as never declared."""
        if not isinstance(written, dict) or "primary" in written:
            return written
        names, baseline = [arm["name"] for arm in written.get("arms", [])], written.get("baseline", "")
        contrasts = [Contrast(arm=name, against=baseline) for name in names if name != baseline]
        dataset = next(iter(written.get("datasets", [])), "")
        question = Question(dataset=dataset, mode="greedy", metric="accuracy_strict", contrasts=contrasts)
        return {**written, "primary": Primary(**question.model_dump(), digest=question.key)}

    @property
    def arm_names(self) -> list[str]:
        """Names of the arms in the study's order, which decides their colours and their place in tables."""
        return [arm.name for arm in self.arms]

    @property
    def evaluated_names(self) -> list[str]:
        """Names of the evaluated models: the base model, if it was evaluated, and the arms."""
        return [*(["base"] if self.has_base else []), *self.arm_names]

    @property
    def trained_here(self) -> StudyFile:
        """The study without imported runs, which have no gradients."""
        copy = self.model_copy(update={"runs": [run for run in self.runs if isinstance(run.spec, ArmSpec)]})
        vars(copy).pop("_runs_by_arm", None)  # the copy would keep what is cached of all runs
        return copy

    def scored_in(self, run: StudyRun) -> list[str]:
        """Components that score a run's completions, in the study's order."""
        return [name for name in self.components if name in run.spec.components]

    @property
    def scored_by_arm(self) -> dict[str, list[str]]:
        """Components that score the completions of each arm's runs, in the study's order."""
        return {run.arm: self.scored_in(run) for run in self.runs}

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Pairs of components that score the completions of one run, in the study's order."""
        together = {frozenset(run.spec.components) for run in self.runs}
        return [
            pair for pair in combinations(self.components, 2) if any(scored.issuperset(pair) for scored in together)
        ]

    @property
    def seed_counts(self) -> tuple[int, int]:
        """Fewest and most seeds of an arm."""
        counts = Counter(run.arm for run in self.runs).values() or [len(self.seeds)]
        return min(counts), max(counts)

    @property
    def counted_seeds(self) -> str:
        """Number of seeds of each arm in words: `1 seed`, `3 seeds`, `2 to 5 seeds`."""
        return from_to(*self.seed_counts, "seed")

    @property
    def seed_sets(self) -> set[frozenset[int]]:
        """The sets of seeds that arms have."""
        return {frozenset(run.seed for run in runs) for runs in self._runs_by_arm.values()}

    @property
    def pairing(self) -> str:
        """How the results of two arms are subtracted, in words."""
        unpaired = ", or of all seeds of each arm, whichever has the smaller 95 % margin"
        return "paired by question, and by the seeds that both have" + unpaired * (len(self.seed_sets) > 1)

    @property
    def is_sequential(self) -> bool:
        """Whether looks decide the primary differences."""
        return self.sequential is not None and self.sequential.in_force

    @property
    def has_looks(self) -> bool:
        """Whether the primary differences are from looks; those of a preview before the first look are not."""
        return self.sequential is not None and self.sequential.in_force and bool(self.sequential.taken)

    def last_look(self, claim: Any) -> tuple[Look, ContrastAtLook] | None:
        """The last look at the difference of a claim, with its sign turned as the claim's; None if none tests it."""
        asked = (self.primary.dataset, self.primary.mode, self.primary.metric)
        if self.sequential is None or not self.is_sequential or asked != (claim.dataset, claim.mode, claim.metric):
            return None
        if found := self.sequential.decision(Contrast(arm=claim.arm, against=claim.against)):
            return found
        if found := self.sequential.decision(Contrast(arm=claim.against, against=claim.arm)):
            look, turned = found
            ends = {"estimate": -turned.estimate, "low": -turned.high, "high": -turned.low}
            return look, turned.model_copy(update={"arm": claim.arm, "against": claim.against, **ends})
        return None

    def weights_text(self, arm: StudyArm) -> list[str]:
        """Weights of an arm in the components' order; a dash for a component that does not score its runs."""
        scored = self.scored_by_arm.get(arm.name, [])
        return [f"{arm.weights[name]:g}" if name in scored else "–" for name in self.components]

    @property
    def metrics(self) -> dict[str, OwnMetric]:
        """The study's own metrics by name, in their order."""
        return {metric.name: metric for metric in self.own_metrics}

    @property
    def is_partial(self) -> bool:
        """Whether runs are missing: they diverged, or are not finished."""
        return bool(self.left_out or self.preview)

    @property
    def datasets_and_modes(self) -> list[tuple[str, str]]:
        """Data sets with the modes in which they may be answered: the primary question's, then the study's order."""
        every = [(dataset, mode) for dataset in self.datasets for mode in ("greedy", "sampled")]
        return sorted(every, key=lambda kind: kind != (self.primary.dataset, self.primary.mode))

    @property
    def primary_not_shown(self) -> str:
        """A sentence where the data set of the primary question has no results yet, as in a preview; else empty."""
        shown = self.primary.dataset in self.datasets or not self.datasets
        return "" if shown else f"The primary question is about {self.primary.dataset}, which is not shown."

    @property
    def primary_family(self) -> str:
        """What Holm's correction of the primary comparisons is over, in words."""
        return "the declared comparisons" + " that can be shown" * self.is_partial

    @property
    def arms_with_methods(self) -> list[str]:
        """Names of the arms whose components are combined by a method that is not TRL's."""
        return [arm.name for arm in self.arms if not arm.has_fixed_weights]

    @property
    def arms_off_the_total(self) -> list[str]:
        """Names of the arms that are not trained on the weighted total."""
        others = {run.arm for run in self.runs if not run.is_trained_on_total}
        return [arm for arm in self.arm_names if arm in others]

    @property
    def main_metric(self) -> str:
        """Metric that figures and the summary lead with: the primary question's, if it is an accuracy or an own one."""
        if self.primary.metric in self.metrics or self.primary.metric.startswith("accuracy_"):
            return self.primary.metric
        return "accuracy_strict" if self.mathematics else next(iter(self.metrics))

    @property
    def main_is_better_high(self) -> bool:
        """Whether more of the main metric is better."""
        return self.main_metric not in self.metrics or self.metrics[self.main_metric].higher_is_better

    @property
    def primary_is_better_high(self) -> bool:
        """Whether more of the primary question's metric is better."""
        metric = self.primary.metric
        return self.metrics[metric].higher_is_better if metric in self.metrics else metric not in BETTER_LOW

    def answers_file(self, dataset: str, run: str) -> str:
        """Path, below the study's folder, of the answers of a run, or of "base", to a data set."""
        return self.answers[dataset].replace("{run}", run)

    def scores_file(self, dataset: str, run: str) -> str | None:
        """Path of the scores of those answers; None where the study has no metrics of its own."""
        return self.scores[dataset].replace("{run}", run) if self.scores else None

    def kept_answers_file(self, dataset: str, run: str) -> str:
        """Path of the answers to a data set by the models that a run kept during training."""
        return self.answers_file(dataset, run).removesuffix(".parquet") + ".steps.parquet"

    def kept_scores_file(self, dataset: str, run: str) -> str | None:
        """Path of the scores of those answers; None where the study has no metrics of its own."""
        file = self.scores_file(dataset, run)
        return None if file is None else file.removesuffix(".parquet") + ".steps.parquet"

    @cached_property
    def _runs_by_arm(self) -> dict[str, list[StudyRun]]:
        by_arm: dict[str, list[StudyRun]] = {}
        for run in self.runs:
            by_arm.setdefault(run.arm, []).append(run)
        return by_arm

    @property
    def same_runs(self) -> dict[str, str]:
        """By arm: the first arm that has the same folder of runs; the arm itself where it shares none."""
        folders = {run.arm: run.folder.rpartition("/")[0] for run in self.runs}
        first: dict[str, str] = {}
        return {arm: first.setdefault(folders.get(arm, arm), arm) for arm in self.arm_names}

    def runs_of(self, arm: str) -> list[StudyRun]:
        """Runs of one arm, one a seed."""
        return self._runs_by_arm.get(arm, [])

    def trained_on(self, arm: StudyArm) -> list[str]:
        """Components that decide an arm's advantages: weighted, or named by its method of combination."""
        runs = self.runs_of(arm.name)
        taking_part = runs[0].spec.taking_part if runs else [name for name, weight in arm.weights.items() if weight]
        return [name for name in self.components if name in taking_part]


def read_study(path: str | Path) -> StudyFile:
    """Read and validate `study.json`, and leave out the runs that diverged."""
    try:
        return StudyFile.model_validate(without_diverged(load_json(Path(path).read_bytes())))
    except FileNotFoundError:
        raise StudyError(f"{path}: there is no such file; let the workflow write it") from None
    except StudyError as error:
        raise StudyError(f"{path}: {error}") from None
    except ValidationError as error:
        raise StudyError(f"{path}: {first_mistake(error)}; let the workflow write it again") from None
    except ValueError as error:
        raise StudyError(f"{path}: {error}; let the workflow write it again") from None


def as_its_runs_say(study: StudyFile, root: Path) -> StudyFile:
    """The study, its declarations with the times that its runs have on record. `root` is the study's folder."""
    folders = dict.fromkeys(run.folder for run in study.runs)
    began = [standing_at_begin(root / folder) for folder in folders]
    primary, looks = study.primary, study.sequential
    # `digest` is the key of the question as declared. A preview lacks some of its contrasts, so its own key is another.
    question = primary.digest if study.preview or primary.digest in primary.keys else primary.key
    known = {claim.key for claim in [*study.claims, *study.withdrawn_claims]}
    stood = {key for each in began if each for key in each.get("claims", {})}
    return study.model_copy(
        update={
            "primary": as_runs_say(primary, "primary", question, began),
            "claims": [as_runs_say(claim, "claims", claim.key, began) for claim in study.claims],
            "lost_claims": 0 if study.preview else len(stood - known),
            "sequential": looks and as_runs_say(looks, "sequential", looks.key, began),
        }
    )


def first_mistake(error: ValidationError) -> str:
    """The first key that is wrong in a file, and what is wrong with its value."""
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def correctness_component(study: StudyFile) -> tuple[str, float] | None:
    """First component that scores the answer alone, and a right answer's score, if that is above any other answer's."""
    components = {name: component for run in study.runs for name, component in run.spec.components.items()}
    for function, right in RIGHT_ANSWER.items():
        for name, component in components.items():
            if component and component.function == function and name in study.components:
                score = float(component.parameters.get("correct", right))
                others = (component.parameters.get(key, default) for key, default in OTHER_ANSWERS.get(function, ()))
                if all(score > other for other in others):
                    return name, score
    return None


def wrong_answer(study: StudyFile, name: str) -> float | None:
    """Score of each answer that is not right, by a component of `RIGHT_ANSWER`; None where such scores can differ."""
    component = [known for run in study.runs if (known := run.spec.components.get(name))][-1]
    return None if component.parameters.get("partial") else WRONG_ANSWER.get(component.function, 0.0)
