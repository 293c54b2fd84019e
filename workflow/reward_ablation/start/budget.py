"""`reward-ablation budget`: seeds and evaluation size that make primary contrasts most precise in given hours."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from reward_ablation.analysis.evaluation.metrics import metrics_of_study
from reward_ablation.analysis.evaluation.question_means import is_of_samples
from reward_ablation.analysis.statistics.seed_variance import USUAL_SEED_SD
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.design.budget import TIME_LIMIT, Precision, Problem, TooFewHours, choose, precision_of
from reward_ablation.design.variances import Components, Pair, finished_runs
from reward_ablation.start.estimates import BASE, FINAL, KEPT, Evaluation, Pace, estimate_evaluations
from reward_ablation.start.history import read_history
from reward_ablation.start.plan import seeds as seeds_in_words
from reward_ablation.start.power import (
    components_of,
    described,
    number,
    positive,
    questions_of,
    variance_lines,
    wrapped,
)
from reward_ablation.start.stale import PresentInputs, stale_because
from reward_ablation.study.study import Run, Study
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import atomic_path

#: An evaluation's questions and samples may be divided by these numbers; and the fewest questions that must be left.
PARTS, FEWEST_QUESTIONS = (1, 2, 4), 50

#: The evaluation is cut only if the squared margin with the config's evaluation is more than this many times larger.
WORTH = 1.05

#: First line of a file that the command writes. Only a file with this line is replaced.
HEADER = "# Written by `reward-ablation budget`."

#: Pattern of the paths that the command may write to.
FILE = r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*\.ya?ml"

#: The text says what this many more hours would gain.
NEXT = 10.0


class Size(NamedTuple):
    """Size of the evaluation: questions of the primary data set, and samples per question."""

    questions: int
    samples: int


@dataclass(frozen=True)
class Costs:
    """Costs in GPU hours; for a study without GPU, in hours with one job at a time."""

    training: Mapping[str, float]  # to train one run of each arm; stated hours include the evaluations
    primary: float  # to evaluate a run's models on the primary data set
    others: float  # to evaluate them on all other data sets
    base: float  # to evaluate the base model on the primary data set
    source: str  # where the hours are from, in words


@dataclass(frozen=True)
class Choice:
    """Numbers of seeds by arm, at one size of the evaluation. Arms that share runs count as the first of them.

    `is_best` says whether it is shown that no choice at this size is better.
    """

    size: Size
    seeds: dict[str, int]
    problem: Problem
    is_best: bool

    @property
    def value(self) -> tuple[float, ...]:
        """The value that the best choice minimises."""
        return self.problem.value(self.seeds)

    @property
    def present(self) -> dict[str, int]:
        """The arms that have seeds, with their numbers of seeds."""
        return {arm: number for arm, number in self.seeds.items() if number}


class Budget:
    """A study whose numbers of seeds are to be chosen.

    To count, a finished run must have been trained with the code and inputs of `present`. `keys` are the values of the
    command's options.
    """

    def __init__(self, study: Study, present: PresentInputs, keys: Mapping[str, Any]) -> None:
        self.study, self.keys, self.file = study, keys, described(study)
        self.first = {
            arm: next(first for first in study.arms if study.keys[first] == study.keys[arm]) for arm in study.arms
        }
        contrasts = [(self.first[each.arm], self.first[each.against]) for each in study.question.contrasts]
        self.pairs = list(dict.fromkeys(pair for pair in contrasts if pair[0] != pair[1]))
        if not self.pairs:
            raise StudyError("budget: the study has no primary contrast of two arms that differ; add an arm")
        self.arms = list(dict.fromkeys(self.first.values()))
        self.limit = limit_of(study, keys)
        self.weights = weights_of(keys.get("weights"), self.pairs)
        self.components = components_or_usual(study, self.file, keys, self.pairs)
        self.finished = finished_seeds(study, present, self.arms)
        self.costs = costs_of(study, keys, self.arms)
        self.needed = frozenset(self.first[arm] for arm in needed_arms(study))
        sampled = study.question.mode == "sampled" and not is_of_samples(study.question.metric)
        self.samples_count = sampled
        number = questions_of(study, keys) or self.components.questions
        self.size = Size(number, study.config.evaluation.samples)

    @property
    def sizes(self) -> list[Size]:
        """Sizes of the evaluation, the config's first; only this size where the evaluation's hours are not known."""
        if not self.costs.primary:
            return [self.size]
        all_questions = [self.size.questions // part for part in PARTS]
        all_samples = [self.size.samples // part for part in (PARTS if self.samples_count else (1,))]
        return [
            Size(questions, samples)
            for questions in all_questions
            for samples in dict.fromkeys(all_samples)
            if questions == self.size.questions or questions >= FEWEST_QUESTIONS
            if samples or samples == self.size.samples
        ]

    def problem(self, size: Size) -> Problem:
        """The choice of seeds at a size. At another size than the config's, finished runs are evaluated again."""
        greedy = self.study.config.evaluation.greedy
        answers = (greedy + size.samples) / (greedy + self.size.samples)
        primary = answers * size.questions / self.size.questions
        evaluation = self.costs.primary * primary + self.costs.others * answers
        numbers = {arm: len(seeds) for arm, seeds in self.finished.items()}
        again = 0.0 if size == self.size else sum(numbers.values()) * evaluation + self.costs.base * primary
        return Problem(
            precision=self.precision(size),
            hours={arm: hours + evaluation for arm, hours in self.costs.training.items()},
            finished=numbers,
            fixed=again,
            needed=self.needed,
            weights=self.weights,
        )

    def precision(self, size: Size) -> Precision:
        """The precision of contrasts at a size."""
        samples = size.samples if self.samples_count else 1
        lends = self.file.seed_variance == "moderated"
        return precision_of(self.components, size.questions, samples, self.file.confidence, lends)

    def best(self, limit: float) -> Choice:
        """The best choice over all sizes within `limit` hours.

        The config's own size stays unless another size is clearly better (`WORTH`).
        """
        choices, least = [], []
        for size in self.sizes:
            problem = self.problem(size)
            try:
                chosen = choose(problem, limit)
                choices.append(Choice(size, chosen.seeds, problem, chosen.is_best))
            except TooFewHours as error:
                least.append(error.least)
        if not choices:
            unit = "gpu_hours" if self.study.config.launch.gpus else "hours"
            raise StudyError(
                f"{unit}: {limit:g} hours do not pay for two seeds of each arm that is needed; the least is "
                f"{min(least):.3g}"
            )
        best, own = min(choices, key=lambda choice: choice.value), choices[0]
        lost, square = own.value
        worth_it = lost > best.value[0] or square > WORTH * best.value[1]
        return best if worth_it or own.size != self.size else own

    def seeds(self, choice: Choice) -> dict[str, list[int]]:
        """Seeds of each arm of the study: finished seeds first, then the arm's own, then the lowest free numbers."""
        return {arm: self._seeds_of(arm, choice.seeds[self.first[arm]]) for arm in self.study.arms}

    def _seeds_of(self, arm: str, number: int) -> list[int]:
        own = [*self.finished[self.first[arm]], *self.study.config.seeds_of(arm), *range(number)]
        return sorted(list(dict.fromkeys(own))[:number])

    def overlay(self, choice: Choice) -> dict[str, Any]:
        """The keys that change the study's config into the chosen study."""
        content: dict[str, Any] = {"arms": {"seeds": self.seeds(choice)}}
        if choice.size.samples != self.size.samples:
            content["evaluation"] = {"samples": choice.size.samples}
        if choice.size.questions != self.size.questions:
            content["data"] = {"evaluation": {self.study.question.dataset: {"limit": choice.size.questions}}}
        return content


def limit_of(study: Study, keys: Mapping[str, Any]) -> float:
    """The stated hours: key `gpu_hours` for a study with GPUs, `hours` for a study without."""
    unit, other = ("gpu_hours", "hours") if study.config.launch.gpus else ("hours", "gpu_hours")
    if other in keys:
        why = "has GPUs" if unit == "gpu_hours" else "has no GPU: launch.gpus is 0"
        raise StudyError(f"{_option(other)}: the study {why}; state {_option(unit)} 40")
    if unit not in keys:
        raise StudyError(f"budget: no limit is stated; add {_option(unit)} 40")
    return positive(unit, keys[unit])


def _option(key: str) -> str:
    return f"--{key.replace('_', '-')}"


def weights_of(written: Any, pairs: list[Pair]) -> dict[Pair, float] | None:
    """Weights of contrasts, stated by arm, else 1. None without the key `weights`: the widest contrast counts."""
    if written is None:
        return None
    if not isinstance(written, dict):
        raise StudyError("--weights: write a number for each arm, such as --weights '{no_format: 2}'")
    arms = [pair[0] for pair in pairs]
    if unknown := [str(arm) for arm in written if arm not in arms]:
        raise StudyError(f"--weights: {unknown[0]!r} is not an arm of a primary contrast; arms: {', '.join(arms)}")
    return {pair: positive("weights", written.get(pair[0], 1)) for pair in pairs}


def components_or_usual(study: Study, file: StudyFile, keys: Mapping[str, Any], pairs: list[Pair]) -> Components:
    """Variance components as for power; where nothing says how much seeds differ, with a usual value."""
    limits = metrics_of_study(file).limits(study.question.metric)
    runs = finished_runs(file, study.results, study.question.dataset)
    known = "pilot" in keys or "seed_sd" in keys or len(runs) > len({run.arm for run in runs})
    if known or not limits.finite:
        return components_of(study, file, keys, limits, pairs)
    usual = USUAL_SEED_SD * (limits.high - limits.low)
    components = components_of(study, file, {**keys, "seed_sd": usual}, limits, pairs)
    why = "seed_sd is a default, since nothing says how much seeds differ; state --seed-sd or --pilot"
    return replace(components, source=f"{components.source}: {why}")


def finished_seeds(study: Study, present: PresentInputs, arms: list[str]) -> dict[str, list[int]]:
    """Seeds of each arm whose runs are finished and not stale, also seeds that are not in the config."""
    history = read_history(study.results / "runs", ())
    finished: dict[str, list[int]] = {}
    for arm in arms:
        run = run_of(study, arm)
        folder = f"{run.folder}/seed"
        records = {
            int(number): record
            for name, record in history.records.items()
            if name.startswith(folder) and (number := name.removeprefix(folder)).isdecimal()
        }
        finished[arm] = sorted(
            seed for seed, record in records.items() if stale_because(record, replace(run, seed=seed), present) is None
        )
    return finished


def run_of(study: Study, arm: str) -> Run:
    """Any run of an arm."""
    return next(run for run in study.runs.values() if run.key == study.keys[arm])


def needed_arms(study: Study) -> set[str]:
    """Arms that must have seeds: the config names them, or no other needed arm scores one of the components."""
    config = study.config
    named = {config.baseline or next(iter(study.arms)), config.control, *(claim.arm for claim in study.claims)}
    named |= {claim.against for claim in study.claims}
    if config.primary.contrasts is not None:
        named |= {arm for contrast in study.question.contrasts for arm in (contrast.arm, contrast.against)}
    needed = {arm for arm in study.arms if arm in named}
    for component in config.components:
        scoring = [name for name, arm in study.arms.items() if component in config.scored_in(arm)]
        if needed.isdisjoint(scoring):
            needed.add(scoring[0])
    return needed


def costs_of(study: Study, keys: Mapping[str, Any], arms: list[str]) -> Costs:
    """Hours of a run: as stated in `run_hours`, else by finished runs and evaluations."""
    if "run_hours" in keys:
        hours = positive("run_hours", keys["run_hours"])
        return Costs(dict.fromkeys(arms, hours), 0.0, 0.0, 0.0, f"stated: {hours:g} for each run with its evaluations")
    pace = Pace(read_history(study.results / "runs", ()))
    training = {}
    for arm in arms:
        run = run_of(study, arm)
        estimate = pace.estimate([(run, pace.steps_of(run))])
        if estimate.unknown:
            raise StudyError(
                f"run_hours: no finished run says how long a run of arm {arm} takes; state the hours of a run with its "
                "evaluations, such as --run-hours 1.5"
            )
        training[arm] = estimate.device_hours if study.config.launch.gpus else estimate.hours
    name, of_a_run = run_of(study, arms[0]).name, (FINAL, KEPT) if study.config.keep_models else (FINAL,)

    def hours_of(dataset: str, *kinds: str) -> float:
        jobs = [Evaluation(kind, "" if kind == BASE else name, dataset, "") for kind in kinds]
        devices = 1 if study.config.launch.gpus else study.config.launch.threads
        return estimate_evaluations(study, jobs, pace).device_hours / devices

    names = dict(zip(study.config.data.evaluation, study.datasets, strict=True))
    primary = names.pop(study.question.dataset)
    of_primary = hours_of(primary, *of_a_run)
    source = "by finished runs" + ("" if of_primary else "; hours of evaluations are not known, and assumed to be 0")
    others = sum(hours_of(dataset, *of_a_run) for dataset in names.values())
    return Costs(training, of_primary, others, hours_of(primary, BASE), source)


def write_overlay(text: str, written: Any, root: Path) -> None:
    """Write the YAML of an overlay to the path `written`, in the project's folder `root` or below."""
    if not isinstance(written, str) or not re.fullmatch(FILE, written):
        raise StudyError(
            f"--write: {written!r} is not a YAML file below this folder; name one, such as --write budget.yaml"
        )
    path = root / written
    if path.exists() and not (path.is_file() and path.read_text(errors="replace").startswith(HEADER)):
        raise StudyError(f"--write: {written} exists, and this command did not write it; name another file")
    with atomic_path(path) as temporary:
        temporary.write_text(text)


def budget(study: Study, present: PresentInputs, keys: Mapping[str, Any]) -> str:
    """Choose seeds and sizes within the stated hours, write them to the file of `write`, and return the text."""
    problem = Budget(study, present, keys)
    choice = problem.best(problem.limit)
    unit = "GPU hours" if study.config.launch.gpus else "hours"
    content = yaml.safe_dump(problem.overlay(choice), default_flow_style=None, sort_keys=False, width=1000)
    overlay = f"{HEADER}\n# {problem.limit:g} {unit} for {study.config.name}\n{content}"
    lines = [
        *heading(problem, choice, unit),
        "",
        *table_of_arms(problem, choice, unit),
        "",
        *table_of_contrasts(problem, choice),
        "",
        *wrapped(next_hours(problem, choice, unit)),
        *(() if choice.is_best else wrapped(f"{TIME_LIMIT} s did not show whether a choice is better still")),
        *(line for arm, why in left_out_texts(problem, choice).items() for line in wrapped(f"left out: {arm}: {why}")),
        "",
        overlay.rstrip(),
    ]
    if "write" in keys:
        file = keys["write"]
        write_overlay(overlay, file, study.root)
        lines += ["", f"written: {file}; name it behind the study's file: reward-ablation run STUDY.yaml {file}"]
    return "\n".join(lines)


def heading(problem: Budget, choice: Choice, unit: str) -> list[str]:
    """Lines on the question, and on the assumed variances and costs."""
    question, size = problem.study.question, choice.size
    cut = "" if size == problem.size else f", cut from {in_words(problem, problem.size)}"
    contrasts = f"{len(problem.pairs)} primary contrast{'s' if len(problem.pairs) > 1 else ''}"
    hours = f"{problem.limit:g} {unit.removesuffix('s') if problem.limit == 1 else unit}"
    aim = "the sum of squared margins is smallest" if problem.weights else "the widest is narrowest"
    return [
        *wrapped(
            f"{hours} for {contrasts}, so that {aim}: {question.metric} on {question.dataset} ({question.mode}), "
            f"{in_words(problem, size)}{cut}"
        ),
        "",
        *variance_lines(problem.components),
        *wrapped(f"hours: {problem.costs.source}"),
    ]


def in_words(problem: Budget, size: Any) -> str:
    """A size of the evaluation, such as `500 questions with 4 samples`."""
    return f"{size.questions:,} questions" + (f" with {size.samples} samples" if problem.samples_count else "")


def table_of_arms(problem: Budget, choice: Choice, unit: str) -> list[str]:
    """A row for each arm of the chosen study, and a row with the hours of all arms."""
    seeds = problem.seeds(choice)
    width = max(len(arm) for arm in (*seeds, "all"))
    lines = [f"{'arm':<{width}}  {'seeds':<20}{'finished':>8}{'to train':>10}{unit:>12}"]
    for arm, numbers in seeds.items():
        first = problem.first[arm]
        if numbers and arm != first:
            lines.append(f"{arm:<{width}}  {seeds_text(numbers):<20}the runs of {first}")
        elif numbers:
            finished = len(problem.finished[arm])
            more = len(numbers) - finished
            hours = more * choice.problem.hours[arm]
            lines.append(f"{arm:<{width}}  {seeds_text(numbers):<20}{finished:>8}{more:>10}{hours:>12.2f}")
    if choice.problem.fixed:
        lines.append(f"{'':<{width}}  {'finished runs, evaluated at the new size':<38}{choice.problem.fixed:>12.2f}")
    return [*lines, f"{'all':<{width}}  {'':<38}{choice.problem.cost(choice.seeds):>12.2f}"]


def seeds_text(numbers: list[int]) -> str:
    """Seeds without the word `seeds`: `0-4, 7`."""
    return seeds_in_words(numbers).partition(" ")[2]


def table_of_contrasts(problem: Budget, choice: Choice) -> list[str]:
    """Rows with the expected half-length of each contrast's interval, and the smallest effect that its test finds."""
    pairs, precision = choice.problem.kept(choice.seeds), choice.problem.precision
    names = [f"{one} against {other}" for one, other in pairs]
    width = max(map(len, [*names, "contrast"]))
    lines = [f"{'contrast':<{width}}  {'interval':>10}{'found':>10}"]
    for name, pair in zip(names, pairs, strict=True):
        margin = precision.margin(pair, choice.present)
        effect = precision.detectable(pair, choice.present, len(pairs))
        lines.append(f"{name:<{width}}  {'±' + number(margin):>10}{number(effect):>10}")
    note = (
        "interval: expected half of its length. found: smallest effect with a power of 80 %, at the first level of "
        "Holm's test."
    )
    return [*lines, *wrapped(note)]


def next_hours(problem: Budget, choice: Choice, unit: str) -> str:
    """What ten more hours would gain."""
    later = problem.best(problem.limit + NEXT)
    before, after = widest(choice), widest(later)
    seeds = [
        f"{arm} {choice.seeds[arm]} to {seeds_later}"
        for arm, seeds_later in later.seeds.items()
        if seeds_later != choice.seeds[arm]
    ]
    changes = [*seeds, *([f"{in_words(problem, later.size)}"] if later.size != choice.size else [])]
    words = f"seeds of {', '.join(changes)}" if seeds else ", ".join(changes) or "nothing"
    return f"ten more {unit}: the widest interval ±{number(before)} becomes ±{number(after)} ({words})"


def widest(choice: Choice) -> float:
    """Half the length of the widest interval."""
    return max(choice.problem.precision.margin(pair, choice.present) for pair in choice.problem.kept(choice.seeds))


def left_out_texts(problem: Budget, choice: Choice) -> dict[str, str]:
    """The arms that get no seeds, each with the reason."""
    return {
        arm: "the hours do not pay for two seeds of all arms"
        if problem.first[arm] in choice.problem.contrasted
        else "in no primary contrast"
        for arm in problem.study.arms
        if not choice.seeds[problem.first[arm]]
    }
