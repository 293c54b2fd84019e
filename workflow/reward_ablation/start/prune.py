"""What a study does not need of its results folder: found by name, and deleted so that no half of it looks whole."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from reward_ablation.config.base import NAME_PATTERN
from reward_ablation.study.canonical import KEY_DIGITS
from reward_ablation.study.run_folder import HIDDEN_RECORD, LOCK, RECORD, SFT_WORK, VLLM_LOG, WORK
from reward_ablation.study.study import FOLDERS, Study
from reward_ablation.system.locks import Held, take

_KEY = rf"[0-9a-f]{{{KEY_DIGITS}}}"
_KEYED = re.compile(rf"{NAME_PATTERN}-{_KEY}")
_SEED = re.compile(r"seed[0-9]+")
#: What training leaves in a run's folder; a folder with anything else in it is somebody's own.
_OF_A_RUN = re.compile(
    rf"{re.escape(RECORD)}|{re.escape(HIDDEN_RECORD)}|{re.escape(WORK)}|{re.escape(LOCK)}|{re.escape(VLLM_LOG)}"
    r"|model(-step[0-9]+)?|set_aside|tensorboard|wandb"
    r"|[a-z_]+\.parquet|gradients_step_[0-9]+\.npz|\..+\.tmp"
)
#: Endings of a model's answers and of their record; `.steps`: of the models that a run kept on the way.
_OF_ANSWERS = (".parquet", ".json", ".steps.parquet", ".steps.json")
#: What a run is exported as, in all layouts.
_OF_AN_EXPORT = re.compile(
    r"all_rewards\.json|gradients_step_[0-9]+\.npz|rollouts\.jsonl|evaluation\.json|eval_\w+\.jsonl"
)
_TEMPORARY = re.compile(r"\..+\.tmp|\..+\.(fetching|old)")
#: A temporary file is left over when nobody has written to it for this many seconds.
_LEFT_OVER_AFTER = 3600


@dataclass(frozen=True)
class Leftover:
    """Something that the study does not need: a file or a folder below the results folder, and what it is."""

    path: Path
    what: str

    def size(self) -> int:
        """Bytes of its files; what links point to is not counted."""
        if not self.path.is_dir():
            return self.path.lstat().st_size
        return sum(
            os.lstat(os.path.join(folder, name)).st_size for folder, _, names in os.walk(self.path) for name in names
        )


def unneeded(study: Study) -> list[Leftover]:
    """What the study does not need of its results folder, sorted by path.

    Only what the workflow itself names so, never a link, nor anything behind one.
    """
    root = study.root / study.config.root
    found = [*_runs(study, root), *_evaluations(study, root), *_inputs(study, root), *_logs(study, root)]
    found += _exports(study, root)
    inside = {leftover.path for leftover in found}
    found += [leftover for leftover in _temporary(root) if inside.isdisjoint(leftover.path.parents)]
    behind_a_link = cache(lambda folder: folder != root and (folder.is_symlink() or behind_a_link(folder.parent)))
    return sorted((each for each in found if not behind_a_link(each.path.parent)), key=lambda each: each.path)


def foreign_in(run: Path) -> list[str]:
    """Names in a run's folder that training does not write."""
    return sorted(name for name in os.listdir(run) if not _OF_A_RUN.fullmatch(name))


def delete(leftover: Leftover, root: Path) -> str | None:
    """Delete it, and folders above it that are empty then.

    Returns
    -------
    str or None
        Why it is still there; None where it is gone.
    """
    path = leftover.path
    try:
        if not path.is_dir():
            path.unlink(missing_ok=True)
        elif _SEED.fullmatch(path.name):
            if foreign := foreign_in(path):
                return f"holds {foreign[0]}, which is not the workflow's"
            with take(path / LOCK):
                for record in (RECORD, HIDDEN_RECORD):  # first: without them it is no finished run
                    (path / record).unlink(missing_ok=True)
                shutil.rmtree(path)
        else:
            gone = path if path.name.startswith(".") else path.with_name(f".{path.name}.old")
            with take(path / LOCK) if path.name.endswith(SFT_WORK) else nullcontext():
                os.replace(path, gone)  # at once: a half of it must not look whole
                shutil.rmtree(gone)
    except Held as error:
        return f"{error} is at work there"
    except OSError as error:
        return f"cannot be deleted: {error.strerror}"
    for folder in path.parents:
        if folder == root or root not in folder.parents:
            break
        with suppress(OSError):  # not empty
            folder.rmdir()
    return None


def _runs(study: Study, root: Path) -> Iterator[Leftover]:
    needed = {f"runs/{name}" for name in study.runs}
    for folder in _folders(root / "runs", _KEYED):
        for seed in _folders(folder, _SEED):
            if str(seed.relative_to(root)) not in needed:
                yield Leftover(seed, _what_run(seed, folder.name in study.folders.values()))


def _what_run(run: Path, of_the_study: bool) -> str:
    finished = (run / RECORD).is_file() or (run / HIDDEN_RECORD).is_file()
    state = "finished run" if finished else "unfinished run"
    return f"{state} of a seed that the study does not have" if of_the_study else f"{state} of another config"


def _evaluations(study: Study, root: Path) -> Iterator[Leftover]:
    models = ["base", *study.runs]
    names = [f"{study.answers_folder}/{model}/{data}" for model in models for data in study.datasets]
    names += [f"{study.answers_folder}/{run}/{data}.steps" for run in study.keeping_runs for data in study.datasets]
    needed = {f"{name}{ending}" for name in names for ending in (".parquet", ".json")}
    for settings in _folders(root / "evaluation", re.compile(_KEY)):
        other = f"evaluation/{settings.name}" != study.answers_folder
        places = [settings / "base", *(seed for arm in _folders(settings, _KEYED) for seed in _folders(arm, _SEED))]
        for place in places:
            of = str(place.relative_to(settings))
            for file in [file for kind in _OF_ANSWERS for file in _files(place, kind)]:
                if str(file.relative_to(root)) not in needed:
                    why = "under other settings" if other else "of another run" if of not in models else "to other data"
                    yield Leftover(file, f"{'answers' if file.suffix == '.parquet' else 'record of answers'} {why}")


def _dataset_of(file: Path) -> str:
    """Name and key of the data set that a file of answers, or its log, is of."""
    return file.stem.removesuffix(".steps")


def _inputs(study: Study, root: Path) -> Iterator[Leftover]:
    needed_models = (study.fetched_file, study.model_file)
    for folder in _folders(root / "models", re.compile(rf"base-{_KEY}")):
        if f"models/{folder.name}/model.json" not in needed_models and _is_a_fetched_model(folder):
            yield Leftover(folder, "base model of another config")
    start = (root / study.model_file).parent
    for work in _folders(root / "models", re.compile(rf"\.base-{_KEY}{re.escape(SFT_WORK)}")):
        if work.name != f".{start.name}{SFT_WORK}" or (root / study.model_file).is_file():
            yield Leftover(work, "unfinished supervised start of another config")
    sets = {study.problems_file, *(f"data/evaluation/{name}.parquet" for name in study.datasets)}
    sets |= {study.demonstrations_file} if study.demonstrations_file else set()
    needed = sets | {name.replace(".parquet", ".json") for name in sets}
    for place, what in (("data", "training set"), ("data/evaluation", "evaluation set")):
        for file in (*_files(root / place, ".parquet"), *_files(root / place, ".json")):
            if str(file.relative_to(root)) not in needed:
                is_start = place == "data" and file.name.startswith("sft-")
                yield Leftover(file, f"{'set of demonstrations' if is_start else what} of another config")


def _is_a_fetched_model(folder: Path) -> bool:
    """Whether the folder holds what its record lists, and nothing else."""
    try:
        listed = set(json.loads((folder / "model.json").read_bytes())["files"])
    except (OSError, ValueError, TypeError, KeyError):
        return False
    return set(os.listdir(folder)) <= listed | {"model.json"}


def _logs(study: Study, root: Path) -> Iterator[Leftover]:
    """Logs and benchmarks of what the study does not need."""
    models = {"base", *study.runs}
    for kind, ending in (("logs", ".log"), ("benchmarks", ".tsv")):
        what = "log" if kind == "logs" else "benchmark"
        train = [file for arm in _folders(root / kind / "train", _KEYED) for file in _files(arm, ending, _SEED)]
        answers = root / kind / "evaluate"
        places = [answers / "base", *(seed for arm in _folders(answers, _KEYED) for seed in _folders(arm, _SEED))]
        of_answers = [file for place in places for of in ("", ".steps") for file in _files(place, f"{of}{ending}")]
        data = root / kind / "prepare" / "evaluation"
        for file in train:
            if str(file.relative_to(root / kind / "train").with_suffix("")) not in models:
                yield Leftover(file, f"{what} of a run that the study does not have")
        for file in of_answers:
            of_kept = file.stem.endswith(".steps")
            run = str(file.parent.relative_to(answers))
            needs = run in study.keeping_runs if of_kept else run in models
            if not needs or _dataset_of(file) not in study.datasets:
                yield Leftover(file, f"{what} of answers that the study does not have")
        for file in _files(data, ending):
            if file.stem not in study.datasets:
                yield Leftover(file, f"{what} of data that the study does not have")


def _exports(study: Study, root: Path) -> Iterator[Leftover]:
    """Files in other systems' layouts, and their logs and benchmarks; whole gradients go with the rewards."""
    needed = set(study.exports)
    runs = {name.rpartition("/")[0] for name in needed}
    for layout in _folders(root / "exports", re.compile(r"[a-z_]+")):
        for seed in (seed for arm in _folders(layout, _KEYED) for seed in _folders(arm, _SEED)):
            of_needed_run = str(seed.relative_to(root)) in runs
            for file in _entries(seed, _OF_AN_EXPORT):
                if str(file.relative_to(root)) not in needed and not (of_needed_run and file.suffix == ".npz"):
                    yield Leftover(file, "export that the study does not ask for")
    for kind, ending in (("logs", ".log"), ("benchmarks", ".tsv")):
        for layout in _folders(root / kind / "export", re.compile(r"[a-z_]+")):
            for file in (file for arm in _folders(layout, _KEYED) for file in _files(arm, ending, _SEED)):
                if f"exports/{layout.name}/{file.parent.name}/{file.stem}" not in runs:
                    yield Leftover(file, f"{kind.removesuffix('s')} of an export that the study does not ask for")


def _temporary(root: Path) -> Iterator[Leftover]:
    """Files that a killed process had not moved into place yet."""
    too_young = time.time() - _LEFT_OVER_AFTER
    for folder, folders, names in os.walk(root):
        left = [name for name in (*folders, *names) if _TEMPORARY.fullmatch(name)]
        for path in (Path(folder, name) for name in left):
            if path.lstat().st_mtime < too_young and not path.is_symlink():
                yield Leftover(path, "left over by a process that was killed")
        # Other folders beside the study's own may be other studies; what is hidden is training's.
        folders[:] = [name for name in folders if name[0] != "." and (Path(folder) != root or name in FOLDERS)]


def _folders(place: Path, pattern: re.Pattern[str]) -> list[Path]:
    """Folders of such names in one, sorted; no links."""
    return [path for path in _entries(place, pattern) if path.is_dir()]


def _files(place: Path, ending: str, pattern: re.Pattern[str] = _KEYED) -> list[Path]:
    """Files of such names and ending in a folder, sorted; no links."""
    whole = re.compile(f"(?:{pattern.pattern}){re.escape(ending)}")
    return [path for path in _entries(place, whole) if path.is_file()]


def _entries(place: Path, pattern: re.Pattern[str]) -> list[Path]:
    try:
        with os.scandir(place) as entries:
            names = [entry.name for entry in entries if pattern.fullmatch(entry.name) and not entry.is_symlink()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [place / name for name in sorted(names)]
