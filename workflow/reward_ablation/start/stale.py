"""Whether runs, answers, scores and inputs are what the study would make today. Their own records say so."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from reward_ablation.spec.canonical import key_of
from reward_ablation.start.history import read_record
from reward_ablation.study.answers_record import made_otherwise, record_beside
from reward_ablation.study.core_digest import (
    checkpoint_code,
    command_modules,
    deciding_digest,
    is_around,
    training_modules,
)
from reward_ablation.study.partial import listed
from reward_ablation.study.run_folder import DIVERGED, deciding_inputs
from reward_ablation.study.study import Run, Study
from reward_ablation.system.digests import digest_where_present

#: How many changed modules a reason names before "and n more".
NAMED_MODULES = 3

#: Start of the reason when the code that decides a run's numbers has changed.
CODE_CHANGED = "training code changed"

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
    def base(self) -> str | None:
        """Digest of the base model's record; None where there is none."""
        return digest_where_present(self._root / self.study.model_file)

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
        model = self._root / self.study.model_file
        record = read_record(model.parent, model.name) or {}
        files = {"model": self.study.fetched_file, "problems": demonstrations}
        if self.study.config.model.source == "local":  # the name of the start's folder has its content
            del files["model"]
        present = self._digests(files)
        recorded = record.get("inputs", {})
        return any(recorded.get(name, digest) != digest for name, digest in present.items())

    def prepared_otherwise(self, file: str) -> bool:
        """Whether other code prepared a set of problems. Records of older versions name no code: these sets stay."""
        code = deciding_digest("data")
        return self._record_beside(file).get("code", code) != code

    @cached_property
    def taught_otherwise(self) -> bool:
        """Whether other code made the supervised start. A start of an older version, without this record, stays."""
        code = deciding_digest("sft")
        return self._record_beside(Path(self.study.model_file).parent).get("code", code) != code

    def scored_otherwise(self, file: str) -> bool:
        """Whether other code made scores. Scores of older versions are made again: scoring trains nothing."""
        return self._record_beside(file).get("code") != self.study.scoring.code

    def shares_unknown_sets(self, file: str) -> bool:
        """Whether nobody has compared a set to train on with one of the evaluation sets that are there."""
        apart_from = self._record_beside(file).get("apart_from")
        return isinstance(apart_from, list) and not {*self.evaluation_sets.values()} <= {*map(str, apart_from)}

    def _record_beside(self, file: str | Path) -> dict[str, Any]:
        return read_record(self._root, record_beside(file)) or {}

    @property
    def _root(self) -> Path:
        return self.study.results

    def _digests(self, files: dict[str, str]) -> dict[str, str]:
        digests = {name: digest_where_present(self._root / file) for name, file in files.items()}
        return {name: digest for name, digest in digests.items() if digest is not None}


@cache
def _modules(functions: tuple[str, ...]) -> dict[str, str]:
    return training_modules(functions)


@cache
def _command_modules(functions: tuple[str, ...]) -> dict[str, str]:
    return command_modules(functions)


def stale_because(record: dict[str, Any], run: Run, present: PresentInputs) -> str | None:
    """Why a finished run must be trained again, in words; None where it need not."""
    if not record:
        return "its run.json cannot be read"
    if record.get("seed") != run.seed or key_of(record.get("spec", {})) != run.key:
        return "its run.json is of another config"
    if record.get("code") != run.code:
        return f"{CODE_CHANGED}{_changed_modules(record.get('modules', {}), present.modules(run))}"
    trained_on, inputs = record.get("inputs", {}), deciding_inputs(record["spec"], present.inputs)
    changed = [_INPUTS[name] for name, digest in inputs.items() if trained_on.get(name, digest) != digest]
    return f"its {' and its '.join(changed)} changed" if changed else None


def are_stale(answers: dict[str, Any], of_base: bool, dataset: str, present: PresentInputs) -> bool:
    """Whether answers must be made again, because other code, problems or another base model than today's made them.

    Answers of an earlier training of their run are a case of `Damage`. `answers` is the record beside the answers. A
    value that the record of an older version lacks counts as unchanged. `of_base` says whether these are the base
    model's answers, and not a run's. `dataset` is the name and key of the evaluation set.
    """
    today = {"problems": present.evaluation_sets.get(dataset), "model": present.base if of_base else None}
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
        if (record := read_record(runs / name, DIVERGED))
        and isinstance(record.get("step"), int)
        and stale_because(record, run, present) is None
    }
    if not diverged:
        return study
    names = listed([f"{name} at step {step}" for name, step in diverged.items()])
    warning = f"diverged, and left out of evaluations, tables and figures: {names}"
    return replace(study, diverged=diverged, warnings=[*study.warnings, warning])
