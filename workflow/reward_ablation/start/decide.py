"""What the next start makes and what it keeps, by the study and the records on disk, and for each run one reason.

The plan, the status, the preview and the start itself read these decisions. Only tables and figures are left to
Snakemake (`start.reruns`). Deciding needs no Snakemake, and writes nothing. Snakemake's own records do not count here,
because they are lost when results are moved.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from reward_ablation.spec.canonical import key_of
from reward_ablation.start.estimates import BASE_MODEL, Evaluation, Pace, evaluation_of
from reward_ablation.start.history import Damage, History, Interrupted, arm_of, read_history, read_record
from reward_ablation.study.answers_record import made_otherwise, record_beside
from reward_ablation.study.core_digest import (
    checkpoint_code,
    command_modules,
    deciding_digest,
    is_around,
    training_modules,
)
from reward_ablation.study.partial import listed
from reward_ablation.study.run_folder import DIVERGED as DIVERGED_RECORD
from reward_ablation.study.run_folder import deciding_inputs
from reward_ablation.study.standing import Standing, standing_of
from reward_ablation.study.study import Run, Study
from reward_ablation.system.digests import digest_where_present

#: How many changed modules a reason names before "and n more".
NAMED_MODULES = 3
#: Start of the reason when the code that decides a run's numbers has changed.
CODE_CHANGED = "training code changed"
#: The reason when a run's folder holds the run of another config.
OTHER_CONFIG = "its run.json is of another config"
_INPUTS = {"model": "base model", "problems": "training set"}


class PresentInputs:
    """The code and inputs that the study would train with today. Files are read on first use."""

    def __init__(self, study: Study):
        self.study = study

    def modules(self, run: Run) -> dict[str, str]:
        """Digest of each of the modules that decide a run's numbers."""
        return _modules(tuple(run.arm_spec.functions))

    def checkpoint_code(self, run: Run) -> str:
        """Digest of the code that a run's checkpoints depend on."""
        return checkpoint_code(_command_modules(tuple(run.arm_spec.functions)))

    @cached_property
    def inputs(self) -> dict[str, str]:
        """Digests of the base model's record and of the training set, as far as these files exist."""
        return self._digests({"model": self.study.model_file, "problems": self.study.problems_file})

    @cached_property
    def evaluation_sets(self) -> dict[str, str]:
        """Digests of the evaluation sets that are prepared, by name and key."""
        return self._digests(dict(zip(self.study.datasets, self.study.evaluation_files, strict=True)))

    @cached_property
    def start_changed(self) -> bool:
        """Whether the existing supervised start was made from another model or from other demonstrations."""
        demonstrations = self.study.demonstrations_file
        if demonstrations is None:
            return False
        model = self.study.results / self.study.model_file
        record = read_record(model.parent, model.name) or {}
        files = {"problems": demonstrations}
        if self.study.config.model.source != "local":  # whose content the key in the folder's name covers
            files["model"] = self.study.fetched_file
        present = self._digests(files)
        recorded = record.get("inputs", {})
        return any(recorded.get(name, digest) != digest for name, digest in present.items())

    def of_other_code(self, file: str | Path, code: str, unnamed: bool = False) -> bool:
        """Whether other code made a file or folder, by the record beside it; `unnamed` if the record names no code."""
        recorded = self._record_beside(file).get("code")
        return unnamed if recorded is None else recorded != code

    def shares_unknown_sets(self, file: str) -> bool:
        """Whether a set to train on was not compared with a present evaluation set; False if an old record lacks it."""
        apart_from = self._record_beside(file).get("apart_from")
        return isinstance(apart_from, list) and not {*self.evaluation_sets.values()} <= {*map(str, apart_from)}

    def _record_beside(self, file: str | Path) -> dict[str, Any]:
        return read_record(self.study.results, record_beside(file)) or {}

    def _digests(self, files: dict[str, str]) -> dict[str, str]:
        digests = {name: digest_where_present(self.study.results / file) for name, file in files.items()}
        return {name: digest for name, digest in digests.items() if digest is not None}


_modules = cache(training_modules)
_command_modules = cache(command_modules)


def stale_because(record: dict[str, Any], run: Run, present: PresentInputs) -> str | None:
    """Why a finished run must be trained again, in words; None where it need not."""
    if not record:
        return "its run.json cannot be read"
    if record.get("seed") != run.seed or key_of(record.get("spec", {})) != run.key:
        return OTHER_CONFIG
    if record.get("code") != run.code:
        return f"{CODE_CHANGED}{_changed_modules(record.get('modules', {}), present.modules(run))}"
    trained_on, inputs = record.get("inputs", {}), deciding_inputs(record["spec"], present.inputs)
    changed = [_INPUTS[name] for name, digest in inputs.items() if trained_on.get(name, digest) != digest]
    return f"its {' and its '.join(changed)} changed" if changed else None


def are_stale(answers: dict[str, Any], of_base: bool, dataset: str, present: PresentInputs) -> bool:
    """Whether answers must be made again: of other code, problems or, for the base model's, of another base model."""
    today = {
        "problems": present.evaluation_sets.get(dataset),
        "model": present.inputs.get("model") if of_base else None,
    }
    return made_otherwise(answers, {name: digest for name, digest in today.items() if digest is not None})


def _changed_modules(recorded: dict[str, str], present: dict[str, str]) -> str:
    """`: a.py, b/c.py and 2 more`; empty where the record does not list its modules."""
    if not recorded:
        return ""
    deciding = {name for name in recorded.keys() | present.keys() if not is_around(name)}
    modules = sorted(name for name in deciding if recorded.get(name) != present.get(name))
    files = [f"{name.partition('.')[2].replace('.', '/') or name}.py" for name in modules]
    return f": {listed(files, NAMED_MODULES)}" if files else ""


def with_diverged(study: Study) -> Study:
    """The study with its diverged runs, and a warning that names them."""
    runs, present = study.results / "runs", PresentInputs(study)
    diverged = {
        name: record["step"]
        for name, run in study.runs.items()
        if (record := read_record(runs / name, DIVERGED_RECORD))
        and isinstance(record.get("step"), int)
        and stale_because(record, run, present) is None
    }
    if not diverged:
        return study
    names = listed([f"{name} at step {step}" for name, step in diverged.items()])
    warning = f"diverged, and left out of evaluations, tables and figures: {names}"
    return replace(study, diverged=diverged, warnings=[*study.warnings, warning])


#: Stands for the value of a key that one of two specs lacks.
ABSENT = object()
#: Longest value of a spec, in characters, that is not cut. A free choice.
LONGEST = 40


def why_new(run: Run, history: History) -> str:
    """Why there is no result of a run: the differences from the earlier spec of its arm that differs least."""
    if not history.arms:
        return "not trained yet"
    trained_as = arm_of(run.name)
    if any(name.startswith(f"{run.folder}/") for name in history.arms.get(trained_as, {})):
        return "new seed"
    spec = run.arm_spec.content()
    earlier = {name.partition("/")[0]: record for name, record in history.arms.get(run.arm, {}).items()}
    changes = [differences(record["spec"], spec) for record in earlier.values() if isinstance(record.get("spec"), dict)]
    return ", ".join(sorted(changes, key=len)[0]) if changes else "new arm"


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The differences of two specs without seeds, in words, weights first: `format 0.33 → 0.5`."""
    names = _new_names(before.get("components", {}), after.get("components", {}))
    for section in ("components", "weights"):
        if section in before:
            renamed = {names.get(name, name): value for name, value in before[section].items()}
            before = {**before, section: renamed}
    changes = [change for change in leaves(before, after) if not _is_no_weight(*change)]
    texts = [(path[0] != "weights", _in_words(path, old, new)) for path, old, new in changes]
    texts += [(True, f"component {old} is now called {new}") for old, new in names.items()]
    return [text for _, text in sorted(dict.fromkeys(texts), key=lambda item: item[0])]


def _new_names(before: dict[str, Any], after: dict[str, Any]) -> dict[str, str]:
    """The new names of components that have another name and are the same otherwise, by their old names."""
    names: dict[str, str] = {}
    for old in before.keys() - after.keys():
        same = [new for new in after.keys() - before.keys() - {*names.values()} if after[new] == before[old]]
        if same:
            names[old] = min(same)
    return names


def _is_no_weight(path: tuple[str, ...], old: Any, new: Any) -> bool:
    """Whether two values of a spec are a weight of 0 and no weight, which mean the same."""
    return path[0] == "weights" and len(path) == 2 and all(value is ABSENT or value == 0 for value in (old, new))


def leaves(before: Any, after: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Paths at which two values differ, with both values. A component that one of them lacks is a single difference."""
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            yield from leaves(before.get(key, ABSENT), after.get(key, ABSENT), (*path, key))
    else:
        yield path, before, after


def _in_words(path: tuple[str, ...], old: Any, new: Any) -> str:
    """A difference at a path of a spec, in the words of the config."""
    section, *rest = path
    name = " ".join(rest)
    change = f"{_value(old)} → {_value(new)}"
    match section, rest:
        case "weights", [component]:
            return f"{component} {_value(0 if old is ABSENT else old)} → {_value(0 if new is ABSENT else new)}"
        case "components", [component]:
            return f"component {component} {'is new' if old is ABSENT else 'is gone'}"
        case "components", [component, "code"]:
            return f"component {component}: its code changed"
        case "components", [component, "parameters", parameter]:
            return f"component {component}: {parameter} {change}"
        case "components", [component, *keys]:
            return f"component {component}: {' '.join(keys)} {change}"
        case "training", [setting]:
            return f"{setting} {change}"
        case (("data" | "model"), _) if rest[-1:] == ["content"]:
            return "the training set changed" if section == "data" else "the base model changed"
        case "data", ["source", *keys] if keys:
            return f"data: {' '.join(keys)} {change}"
        case _:
            return f"{section}: {name} {change}" if name else f"{section} {change}"


def _value(value: Any) -> str:
    """A value as written in a config. Commit hashes are cut to their first digits, and long texts are cut."""
    if value is ABSENT:
        return "(default)"
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    if re.fullmatch(r"[0-9a-f]{16,}", text):
        return text[:8]
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


DONE = "trained"
DAMAGED = "its files are damaged"
PUT_BACK = "trained, its run.json is put back"
DIVERGED = "diverged at step {}, left out; to train it again, delete its folder"
KEPT = "kept, as --any-code says"


@dataclass(frozen=True)
class PlannedRun:
    """A run, whether it will be trained, and why or why not."""

    run: Run
    trains: bool
    why: str
    steps_left: int | None = 0  # steps that the run still has to make; None where their number is not known
    damage: str = ""  # which file of the run is damaged and how, if the run is trained again because of damage
    #: GPU hours that the damaged run's training took, or CPU hours of a run without a GPU; None where not recorded.
    hours: float | None = None
    diverged: bool = False  # whether the run diverged, and is left out

    @property
    def has_job(self) -> bool:
        """Whether a start has a job for the run: it trains it, or puts back the record of a trained run."""
        return self.trains or self.why == PUT_BACK


class Decisions:
    """What a start makes and keeps, read on first use. Without `code_counts`, results of other code are kept."""

    def __init__(self, study: Study, code_counts: bool = True):
        self.study = study
        self.code_counts = code_counts
        self.root = study.results
        self.present = PresentInputs(study)
        self.damage = Damage(study)
        self._models = [BASE_MODEL, *study.sound_runs]
        self._reasons_if_new: dict[str, str] = {}

    @cached_property
    def history(self) -> History:
        return read_history(self.root / "runs", self.study.runs)

    @cached_property
    def standings(self) -> list[Standing | None]:
        """What `study.json` declared when each finished run of the study began; None where its record does not say."""
        records = {**self.history.records, **self.history.set_aside}
        return [standing_of(records[name].get("attempts")) for name in self.study.runs if name in records]

    @cached_property
    def pace(self) -> Pace:
        return Pace(self.history)

    @cached_property
    def runs(self) -> dict[str, PlannedRun]:
        return {name: self._planned(run) for name, run in self.study.runs.items()}

    def _planned(self, run: Run) -> PlannedRun:
        if run.name in self.study.diverged:
            return PlannedRun(run, False, DIVERGED.format(self.study.diverged[run.name]), diverged=True)
        record = self.history.records.get(run.name)
        stale = None if record is None else stale_because(record, run, self.present)
        damaged = self.damage.of_run(run.name, record) if record else None
        if record and damaged is None and (stale is None or not self.code_counts):
            return PlannedRun(run, False, DONE if stale is None else f"{stale}; {KEPT}")
        set_aside = self.history.set_aside.get(run.name)
        aside_stale = stale_because(set_aside, run, self.present) if set_aside else None
        if set_aside and (aside_stale is None or (not self.code_counts and aside_stale != OTHER_CONFIG)):
            damaged = self.damage.of_run(run.name, set_aside, with_models=True)
            if damaged is None:
                return PlannedRun(run, False, PUT_BACK)
        steps = self.pace.steps_of(run)
        if damaged is not None and not (record and stale and self.code_counts):
            hours = (record or set_aside or {}).get("gpu_hours" if run.arm_spec.gpus else "cpu_hours")
            return PlannedRun(run, True, DAMAGED, steps, damaged, hours)
        if stale is not None:
            return PlannedRun(run, True, stale, steps)
        return self._unfinished(run, steps) or PlannedRun(run, True, aside_stale or self._why_new(run), steps)

    def _unfinished(self, run: Run, steps: int | None) -> PlannedRun | None:
        """The decision on a run that is being trained or has a checkpoint; None where there is no such work."""
        work = self.history.interrupted.get(run.name)
        if work is not None and goes_on(work, run, self.present) and (work.step or work.running):
            at = f"at step {work.step}{f' of {steps}' if steps else ''}"
            why = f"is being trained now, {at}" if work.running else f"interrupted {at}, goes on from there"
            return PlannedRun(run, True, why, None if steps is None else max(steps - work.step, 0))
        if work is not None and work.step:
            why = f"interrupted at step {work.step} under other code or data, begins anew"
            return PlannedRun(run, True, why, steps)
        return None

    def _why_new(self, run: Run) -> str:
        if run.folder not in self._reasons_if_new:  # all seeds of an arm have the same reason
            self._reasons_if_new[run.folder] = why_new(run, self.history)
        return self._reasons_if_new[run.folder]

    @cached_property
    def finished_runs_again(self) -> set[str]:
        """Names of the runs that have a record and still a job: they are stale or damaged, or the record is broken."""
        return {name for name, each in self.runs.items() if each.has_job and name in self.history.records}

    @cached_property
    def answers_again(self) -> set[str]:
        """Files of answers that exist and are made again: damaged, stale, or of a run that is trained again."""
        again = set(self.damaged_answers)
        for model in self._models:
            trains = model in self.runs and self.runs[model].trains
            files = [file for file in self.damage.answer_files(model) if self.exists(file)]
            again.update(file for file in files if trains or (self.code_counts and self._is_stale(file)))
        return again

    @cached_property
    def damaged_answers(self) -> dict[str, str]:
        return self.damage.all_answers()

    @cached_property
    def evaluations(self) -> list[Evaluation]:
        """The evaluations that a start makes: answers that are missing, or made again."""
        return [evaluation for model in self._models for evaluation in self.evaluations_of(model)]

    def evaluations_of(self, model: str) -> list[Evaluation]:
        files = self.damage.answer_files(model)
        make = [file for file in files if file in self.answers_again or not self.exists(file)]
        return [evaluation_of(file, model) for file in make]

    @cached_property
    def scorings(self) -> list[str]:
        """Files of scores by the study's own metrics that a start makes: missing, of new answers, or by other code."""
        new = {evaluation.answers.split("/", 2)[2] for evaluation in self.evaluations}

        def is_made(file: str) -> bool:
            if file.split("/", 2)[2] in new or not self.exists(file):
                return True
            # Scores of older versions, which name no code, are made again: scoring trains nothing.
            return self.code_counts and self.present.of_other_code(file, self.study.scoring.code, unnamed=True)

        return [file for file in self.study.scores if is_made(file)]

    @cached_property
    def inputs(self) -> dict[str, str]:
        """What each input of runs and evaluations is, by its file."""
        study = self.study
        inputs = {study.fetched_file: "base model", study.problems_file: "training set"}
        if study.demonstrations_file:
            inputs |= {study.model_file: "supervised start", study.demonstrations_file: "demonstrations"}
        inputs |= {file: f"evaluation set {name}" for file, name in self._evaluation_sets.items()}
        return inputs | dict.fromkeys(study.fetched_reward_models, "reward model")

    @cached_property
    def inputs_to_make(self) -> set[str]:
        """The files of `inputs` that are made: missing, of other code, or training sets that new sets may overlap."""
        study, present = self.study, self.present
        make = {file for file in self.inputs if not self.exists(file)}
        held_apart = {file for file in (study.problems_file, study.demonstrations_file) if file}
        if self.code_counts:
            code, sets = deciding_digest("data"), {*self._evaluation_sets, *held_apart}
            make |= {file for file in sets if present.of_other_code(file, code)}
            start = Path(study.model_file).parent
            if study.demonstrations_file and present.of_other_code(start, deciding_digest("sft")):
                make.add(study.model_file)
        # A new evaluation set may share questions with the sets to train on.
        new = bool(make & self._evaluation_sets.keys())
        make |= {file for file in held_apart if new or present.shares_unknown_sets(file)}
        return make | ({study.model_file} if present.start_changed else set())

    @cached_property
    def _evaluation_sets(self) -> dict[str, str]:
        return dict(zip(self.study.evaluation_files, self.study.datasets, strict=True))

    def exists(self, file: str) -> bool:
        """Whether a file is there; the path is relative to the results folder."""
        return os.path.exists(f"{self.root}/{file}")

    def _is_stale(self, file: str) -> bool:
        """Whether other code, problems or another base model than today's made a file of answers."""
        record = read_record(self.root, record_beside(file))
        of_base, dataset = f"/{BASE_MODEL}/" in file, os.path.basename(file).split(".")[0]
        if not record or are_stale(record, of_base, dataset, self.present):
            return bool(record)
        # A model that is not fetched yet has no bytes to compare, but the key in its folder's name covers them.
        models = [os.path.basename(os.path.dirname(self.study.model_file))]
        return of_base and not self.exists(self.study.model_file) and record.get("models", models) != models


def goes_on(work: Interrupted, run: Run, present: PresentInputs) -> bool:
    """Whether unfinished work has this run's spec, code and data. Training deletes any other work and starts anew."""
    same_inputs = all(work.inputs.get(name) == digest for name, digest in present.inputs.items())
    same_spec = work.spec == {**run.arm_spec.content(), "seed": run.seed}
    same_code = work.code == run.code and checkpoint_code(work.modules) == present.checkpoint_code(run)
    return same_spec and same_code and same_inputs
