"""The command `reward-ablation budget`: the seeds that make primary contrasts most precise in given hours.

`start.command_line` calls it. Variances and hours are stated, or read from the records of runs. It returns the text and
writes the YAML. `design.budget` searches for the best numbers of seeds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from reward_ablation.analysis.evaluation.metrics import metrics_of_study
from reward_ablation.analysis.evaluation.question_means import is_of_samples
from reward_ablation.analysis.statistics.seed_variance import USUAL_SEED_SD
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.design.budget import TIME_LIMIT, Problem, TooFewHours, choose, precision_of
from reward_ablation.design.variances import Components, Pair, finished_runs
from reward_ablation.start.decide import PresentInputs, stale_because
from reward_ablation.start.estimates import FINAL, KEPT, Evaluation, Pace, estimate_evaluations
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
from reward_ablation.study.study import Run, Study
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import atomic_path

#: First line of a file that the command writes. Only a file with this line is replaced.
HEADER = "# Written by `reward-ablation budget`."
#: Pattern of the paths that the command may write to.
FILE = r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*\.ya?ml"
#: The text says what this many more hours would gain. A free choice.
NEXT = 10.0
#: Numbers of seeds by arm. Arms that share runs count as the first of them.
Seeds = Mapping[str, int]


class Budget:
    """A study whose seeds are chosen. Finished runs count by today's code and inputs; `keys` are the options."""

    def __init__(self, study: Study, present: PresentInputs, keys: Mapping[str, Any]) -> None:
        if study.looks:
            raise StudyError(
                "budget: seeds.looks decide the seeds of this study, one look after the other; write seeds as a list"
            )
        self.study, file, config = study, described(study), study.config
        self.unit = "GPU hours" if config.launch.gpus else "hours"
        self.first = {
            arm: next(first for first in study.arms if study.keys[first] == study.keys[arm]) for arm in study.arms
        }
        contrasts = [(self.first[each.arm], self.first[each.against]) for each in study.question.contrasts]
        self.pairs = list(dict.fromkeys(pair for pair in contrasts if pair[0] != pair[1]))
        if not self.pairs:
            raise StudyError("budget: the study has no primary contrast of two arms that differ; add an arm")
        arms = list(dict.fromkeys(self.first.values()))
        self.limit = limit_of(study, keys)
        weights = weights_of(keys.get("weights"), self.pairs)
        self.components = components_or_usual(study, file, keys, self.pairs)
        self.finished = finished_seeds(study, present, arms)
        hours, self.source = costs_of(study, keys, arms)
        is_sampled = study.question.mode == "sampled" and not is_of_samples(study.question.metric)
        self.samples = config.evaluation.samples if is_sampled else None
        self.questions = questions_of(study, keys) or self.components.questions
        self.problem = Problem(
            precision=precision_of(
                self.components, self.questions, self.samples or 1, file.confidence, file.seed_variance == "moderated"
            ),
            hours=hours,
            finished={arm: len(seeds) for arm, seeds in self.finished.items()},
            needed=frozenset(self.first[arm] for arm in needed_arms(study)),
            weights=weights,
        )

    def best(self, limit: float) -> tuple[dict[str, int], bool]:
        """The best choice within `limit` hours, and whether it is shown that no choice is better."""
        try:
            chosen = choose(self.problem, limit)
        except TooFewHours as error:
            unit = "gpu_hours" if self.study.config.launch.gpus else "hours"
            raise StudyError(
                f"{unit}: {limit:g} hours do not pay for two seeds of each arm that is needed; the least is "
                f"{error.least:.3g}"
            ) from None
        return chosen.seeds, chosen.is_best

    def seeds(self, choice: Seeds) -> dict[str, list[int]]:
        """Seeds of each arm of the study: finished seeds first, then the arm's own, then the lowest free numbers."""
        return {arm: self._seeds_of(arm, choice[self.first[arm]]) for arm in self.study.arms}

    def _seeds_of(self, arm: str, number: int) -> list[int]:
        own = [*self.finished[self.first[arm]], *self.study.config.seeds_of(arm), *range(number)]
        return sorted(list(dict.fromkeys(own))[:number])

    def margin(self, pair: Pair, choice: Seeds) -> float:
        """Half the length of a contrast's interval, as a root mean square over studies."""
        return self.problem.precision.margin(pair, present(choice))


def present(choice: Seeds) -> dict[str, int]:
    """The arms that have seeds, with their numbers of seeds."""
    return {arm: number for arm, number in choice.items() if number}


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


def costs_of(study: Study, keys: Mapping[str, Any], arms: list[str]) -> tuple[dict[str, float], str]:
    """Hours of one more run of each arm, with the first arm's hours of evaluations, and where they are from."""
    if "run_hours" in keys:
        hours = positive("run_hours", keys["run_hours"])
        return dict.fromkeys(arms, hours), f"stated: {hours:g} for each run with its evaluations"
    pace = Pace(read_history(study.results / "runs", ()))
    on_gpus = study.config.launch.gpus > 0
    kinds = (FINAL, KEPT) if study.config.keep_models else (FINAL,)
    name = run_of(study, arms[0]).name
    jobs = [Evaluation(kind, name, dataset, "") for dataset in study.datasets for kind in kinds]
    evaluation = estimate_evaluations(study, jobs, pace).device_hours / (1 if on_gpus else study.config.launch.threads)
    training = {}
    for arm in arms:
        run = run_of(study, arm)
        estimate = pace.estimate([(run, pace.steps_of(run))])
        if estimate.unknown:
            raise StudyError(
                f"run_hours: no finished run says how long a run of arm {arm} takes; state the hours of a run with its "
                "evaluations, such as --run-hours 1.5"
            )
        training[arm] = (estimate.device_hours if on_gpus else estimate.hours) + evaluation
    unknown = "" if evaluation else "; hours of evaluations are not known, and assumed to be 0"
    return training, f"by finished runs{unknown}"


def overlay_path(written: Any, root: Path) -> Path:
    """The path `written` for the YAML of an overlay, in the project's folder `root` or below."""
    if not isinstance(written, str) or not re.fullmatch(FILE, written):
        raise StudyError(
            f"--write: {written!r} is not a YAML file below this folder; name one, such as --write budget.yaml"
        )
    path = root / written
    if path.exists() and not (path.is_file() and path.read_text(errors="replace").startswith(HEADER)):
        raise StudyError(f"--write: {written} exists, and this command did not write it; name another file")
    return path


def budget(study: Study, present: PresentInputs, keys: Mapping[str, Any]) -> str:
    """Choose seeds within the stated hours, write them to the file of `write`, and return the text."""
    if "write" in keys:
        overlay_path(keys["write"], study.root)  # refused before the search
    task = Budget(study, present, keys)
    choice, is_best = task.best(task.limit)
    seeds = task.seeds(choice)
    content = yaml.safe_dump({"arms": {"seeds": seeds}}, default_flow_style=None, sort_keys=False, width=1000)
    overlay = f"{HEADER}\n# {task.limit:g} {task.unit} for {study.config.name}\n{content}"
    lines = [
        *heading(task),
        "",
        *table_of_arms(task, choice),
        "",
        *table_of_contrasts(task, choice),
        "",
        *wrapped(next_hours(task, choice)),
        *(() if is_best else wrapped(f"{TIME_LIMIT} s did not show whether a choice is better still")),
    ]
    for arm in (arm for arm, numbers in seeds.items() if not numbers):
        is_contrasted = task.first[arm] in task.problem.contrasted
        why = "the hours do not pay for two seeds of all arms" if is_contrasted else "in no primary contrast"
        lines += wrapped(f"left out: {arm}: {why}")
    lines += ["", overlay.rstrip()]
    if "write" in keys:
        file = keys["write"]
        with atomic_path(overlay_path(file, study.root)) as temporary:
            temporary.write_text(overlay)
        lines += ["", f"written: {file}; name it behind the study's file: reward-ablation run STUDY.yaml {file}"]
    return "\n".join(lines)


def heading(task: Budget) -> list[str]:
    """Lines on the question, and on the assumed variances and costs."""
    question = task.study.question
    contrasts = f"{len(task.pairs)} primary contrast{'s' if len(task.pairs) > 1 else ''}"
    hours = f"{task.limit:g} {task.unit.removesuffix('s') if task.limit == 1 else task.unit}"
    aim = "the sum of squared margins is smallest" if task.problem.weights else "the widest is narrowest"
    size = f"{task.questions:,} questions" + (f" with {task.samples} samples" if task.samples is not None else "")
    asked = f"{question.metric} on {question.dataset} ({question.mode}), {size}"
    return [
        *wrapped(f"{hours} for {contrasts}, so that {aim}: {asked}"),
        "",
        *variance_lines(task.components),
        *wrapped(f"hours: {task.source}"),
    ]


def table_of_arms(task: Budget, choice: Seeds) -> list[str]:
    """A row for each arm of the chosen study, and a row with the hours of all arms."""
    seeds = task.seeds(choice)
    width = max(len(arm) for arm in (*seeds, "all"))
    lines = [f"{'arm':<{width}}  {'seeds':<20}{'finished':>8}{'to train':>10}{task.unit:>12}"]
    for arm, numbers in seeds.items():
        shown = seeds_in_words(numbers).partition(" ")[2]
        if numbers and arm != task.first[arm]:
            lines.append(f"{arm:<{width}}  {shown:<20}the runs of {task.first[arm]}")
        elif numbers:
            finished = len(task.finished[arm])
            hours = task.problem.cost_of(arm, len(numbers))
            lines.append(f"{arm:<{width}}  {shown:<20}{finished:>8}{len(numbers) - finished:>10}{hours:>12.2f}")
    return [*lines, f"{'all':<{width}}  {'':<38}{task.problem.cost(choice):>12.2f}"]


def table_of_contrasts(task: Budget, choice: Seeds) -> list[str]:
    """Rows with half the length of each contrast's interval, and the smallest effect that its test finds."""
    pairs = task.problem.kept(choice)
    names = [f"{one} against {other}" for one, other in pairs]
    width = max(map(len, [*names, "contrast"]))
    lines = [f"{'contrast':<{width}}  {'interval':>10}{'found':>10}"]
    for name, pair in zip(names, pairs, strict=True):
        effect = task.problem.precision.detectable(pair, present(choice), len(pairs))
        lines.append(f"{name:<{width}}  {'±' + number(task.margin(pair, choice)):>10}{number(effect):>10}")
    note = (
        "interval: half of its length, as a root mean square over studies. found: smallest effect with a power of "
        "80 %, at the first level of Holm's test."
    )
    if task.problem.precision.lends:
        note += (
            " Both take for granted that no arm is found to differ more than the others, which would borrow no "
            "variance from them; reward-ablation power also counts studies where one is, and has mean lengths."
        )
    return [*lines, *wrapped(note)]


def next_hours(task: Budget, choice: Seeds) -> str:
    """What `NEXT` more hours, ten, would gain: the widest interval now and then, and the changed numbers of seeds."""
    later, _ = task.best(task.limit + NEXT)
    before, after = (max(task.margin(pair, each) for pair in task.problem.kept(each)) for each in (choice, later))
    changes = [f"{arm} {choice[arm]} to {more}" for arm, more in later.items() if more != choice[arm]]
    words = f"seeds of {', '.join(changes)}" if changes else "nothing"
    return f"ten more {task.unit}: the widest interval ±{number(before)} becomes ±{number(after)} ({words})"
