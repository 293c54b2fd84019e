"""Checks before the first job: TRL accepts the settings, the users' files load and score, and runs compare."""

from __future__ import annotations

import contextlib
import hashlib
import platform
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from reward_ablation.config.sections.data import further_columns
from reward_ablation.config.trl_settings import check_version, tracking_in
from reward_ablation.report.pages import installed
from reward_ablation.rewards.trial import is_wanted
from reward_ablation.spec.canonical import canonical
from reward_ablation.start.history import read_record
from reward_ablation.study.code_digest import code_digest
from reward_ablation.study.core_digest import training_digest
from reward_ablation.study.provenance import (
    HARDWARE,
    SURROUNDING,
    Quantities,
    Trained,
    comparable_codes,
    quantities,
)
from reward_ablation.study.reward_import import Request, check_calls, check_imports
from reward_ablation.study.specs_of_config import layout_of
from reward_ablation.study.study import Study
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import atomic_path
from reward_ablation.system.user_functions import in_a_file
from reward_ablation.training.around.launch.worker import refuse_other_launchers

#: File in the results folder: a digest of the settings that TRL accepted, of the packages, and of the checking code.
PASSED = ".settings_passed"

#: For each quantity, the value that was seen first, and where.
_Seen = dict[str, tuple[str, str]]


def check_training_settings(study: Study, folder: Path, tell: Callable[[str], None]) -> None:
    """Let TRL check every distinct set of training settings and processes, in a process of its own.

    Importing TRL takes seconds, so nothing is asked if `remember_settings` has recorded in the results folder `folder`
    that TRL accepted them. Any other version of TRL than the one that the workflow needs is refused.
    """
    check_version()
    refuse_other_launchers()
    record = folder / PASSED
    if record.is_file() and record.read_text() == _digest_of_settings(study):
        return
    tell("asking TRL for its rules ...")
    command = [sys.executable, "-m", "reward_ablation.start.ask_trl"]
    result = subprocess.run(command, input="\n".join(training_settings(study)), text=True, capture_output=True)
    if result.returncode:
        last_line = (result.stderr.strip().splitlines() or ["the check of the training settings died"])[-1]
        raise StudyError(last_line.removeprefix("error: "))


def training_settings(study: Study) -> list[str]:
    """Canonical JSON of each distinct set of settings, for `reward_ablation.start.ask_trl`."""
    asked = [
        (
            {**run.arm_spec.training, **tracking_in({**study.config.training, **study.arms[run.arm].training})},
            run.launch,
        )
        for run in study.runs.values()
    ]
    settings = {canonical({"training": own, "layout": layout_of(launch).content()}) for own, launch in asked}
    if study.config.sft:
        settings.add(canonical({"sft": study.config.sft.training, "gpus": study.config.launch.gpus}))
    return sorted(settings)


def remember_settings(study: Study, folder: Path) -> None:
    """Record in the results folder that TRL accepted the settings. To be called after `check_training_settings`."""
    with contextlib.suppress(OSError), atomic_path(folder / PASSED) as temporary:  # other checks report the folder
        temporary.write_text(_digest_of_settings(study))


def _digest_of_settings(study: Study) -> str:
    """Digest of the settings, of the packages that judge them, and of the checking code."""
    packages = canonical({"python": sys.version, **installed()})
    checked = [*training_settings(study), packages, code_digest("reward_ablation.start.ask_trl")]
    return hashlib.sha256("\0".join(checked).encode()).hexdigest()


def check_reward_files(study: Study, trains: bool, scores: bool, tell: Callable[[str], None]) -> None:
    """Import the users' files that this start needs, in a process of their own, and call their components once.

    A file that does not load and a component that fails are refused, or told where the jobs may not meet the error.
    `trains` says whether components score completions, and `scores` whether the study's own metrics score answers.
    """
    config, data = study.config, study.config.data
    requests: dict[str, Request] = {}
    if trains:
        for name, each in config.components.items():
            further = further_columns(data.train)
            requests[f"components.{name}"] = Request("components", each.function, each.parameters, further)
        methods = {arm: each.combine.method for arm, each in study.arms.items() if each.combine}
        requests |= {f"arms.{arm}.combine": Request("combination", method) for arm, method in methods.items()}
    if scores:
        for name, (function, parameters) in config.metric_functions().items():
            for source in data.evaluation.values():
                further = further_columns(source)
                requests[f"evaluation.metrics.{name}"] = Request("components", function, parameters, further)
    if own := {key: request for key, request in requests.items() if in_a_file(request.function)}:
        check_imports(own, study.root)
        called = {key: request for key, request in own.items() if key.startswith("components.")}
        if called and is_wanted():
            from reward_ablation.start.reward_trials import trial_of  # here, because it imports the grader

            trial = trial_of(study)
            for line in check_calls({key: each._replace(trial=trial) for key, each in called.items()}, study.root):
                tell(f"warning: {line}")


def check_before_training(study: Study, code_counts: bool = True) -> None:
    """Under `mixed_provenance: refuse`, refuse before any job what the rule `tables_provenance` would refuse later.

    The hardware of the coming runs is not known yet, and not compared. With `code_counts`, runs of other code are
    trained again, so their code does not matter.
    """
    if study.config.mixed_provenance == "tell":
        return
    seen: _Seen = {}
    to_train, trained = False, {}
    for name, run in study.runs.items():
        record = read_record(study.results / "runs" / name)
        if not record or (code_counts and record.get("code") != run.code):
            to_train = True
        elif "attempts" in record:  # else an older version wrote the record, and the tables report this
            trained[name] = record
    functions_of_study = [component.function for component in study.config.components.values()]
    functions = {name: run.arm_spec.functions for name, run in study.runs.items()}
    codes = comparable_codes(
        {name: Trained(record["code"], functions[name], record.get("modules", {})) for name, record in trained.items()},
        functions_of_study,
    )
    for name, record in trained.items():
        _compare(seen, quantities({**record, "code": codes[name]}), f"runs/{name}", study)
    if to_train and seen:
        packages = [name for name in seen if name not in {"code", "python", *HARDWARE}]
        coming = {"code": [training_digest(functions_of_study)], "python": [platform.python_version()]}
        coming |= {name: [version(name)] for name in packages}
        _compare(seen, coming, "the runs to be trained now", study)


def _compare(seen: _Seen, values: Quantities, where: str, study: Study) -> None:
    """Refuse values that differ from those seen first, and add new quantities to `seen`."""
    for quantity, of_run in values.items():
        for value in of_run if quantity != SURROUNDING else []:
            first, first_where = seen.setdefault(quantity, (value, where))
            if value != first:
                raise StudyError(
                    f"{study.config.root}: {quantity} is {first} in {first_where} and {value} in {where}; delete the "
                    "runs that should be trained again, install the versions that the others were trained with, or set "
                    "mixed_provenance: tell"
                )
