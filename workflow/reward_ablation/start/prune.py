"""`snakemake prune`: the files of the results folder that the study does not need."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from reward_ablation.config.base import NAME_PATTERN
from reward_ablation.study.canonical import KEY_DIGITS
from reward_ablation.study.run_folder import DIVERGED, HIDDEN_RECORD, LOCK, RECORD, SFT_WORK, UNFINISHED, VLLM_LOG, WORK
from reward_ablation.study.study import FOLDERS, PREVIEW, Study
from reward_ablation.system.locks import Held, take

_KEY = rf"[0-9a-f]{{{KEY_DIGITS}}}"
_KEYED = rf"{NAME_PATTERN}-{_KEY}"
_SEED = "seed[0-9]+"
_RUN = f"{_KEYED}/{_SEED}"
_MODEL = f"(?:base|{_RUN})"
_LOG = r"(?:logs/{0}\.log|benchmarks/{0}\.tsv)"
_EXPORT = r"(?:all_rewards\.json|gradients_step_[0-9]+\.npz|rollouts\.jsonl|evaluation\.json|eval_\w+\.jsonl)"
#: Folders and files that the workflow makes for a config: patterns of their paths in the results folder, and what they
#: are.
_FOLDER_KINDS = {
    f"runs/{_RUN}": "run",
    PREVIEW: "preview, which `snakemake preview` makes again",
    rf"evaluation/{_KEY}/{_MODEL}/{re.escape(UNFINISHED)}": "unfinished answers that the study does not have",
    f"models/base-{_KEY}": "base model of another config",
    f"models/reward-{_KEY}": "reward model of another config",
    rf"models/\.base-{_KEY}{re.escape(SFT_WORK)}": "unfinished supervised start of another config",
}
_FILE_KINDS = {
    rf"evaluation/{_KEY}/{_MODEL}/{_KEYED}(?:\.steps)?\.parquet": "answers that the study does not have",
    rf"evaluation/{_KEY}/{_MODEL}/{_KEYED}(?:\.steps)?\.json": "record of answers that the study does not have",
    rf"scores/{_KEY}-{_KEY}/{_MODEL}/{_KEYED}(?:\.steps)?\.parquet": "scores that the study does not have",
    rf"scores/{_KEY}-{_KEY}/{_MODEL}/{_KEYED}(?:\.steps)?\.json": "record of scores that the study does not have",
    rf"data/sft-{_KEY}\.(?:parquet|json)": "set of demonstrations of another config",
    rf"data/{_KEYED}\.(?:parquet|json)": "training set of another config",
    rf"data/evaluation/{_KEYED}\.(?:parquet|json)": "evaluation set of another config",
    rf"exports/[a-z_]+/{_RUN}/{_EXPORT}": "export that the study does not ask for",
    _LOG.format(f"train/{_RUN}"): "of a run that the study does not have",
    _LOG.format(f"evaluate/{_MODEL}"): "of answers that the study does not have",
    _LOG.format(rf"evaluate/{_MODEL}/{_KEYED}(?:\.steps)?"): "of answers that the study does not have",
    _LOG.format(rf"score/{_MODEL}/{_KEYED}(?:\.steps)?"): "of scores that the study does not have",
    _LOG.format(f"prepare/evaluation/{_KEYED}"): "of data that the study does not have",
    _LOG.format(f"fetch/reward-{_KEY}"): "of a reward model that the study does not have",
    _LOG.format(f"export/[a-z_]+/{_RUN}"): "of an export that the study does not ask for",
}
_TEMPORARY = re.compile(r"\..+\.tmp|\..+\.(fetching|old)")
#: A temporary file counts as left over once nobody has written to the file for this many seconds.
_LEFT_OVER_AFTER = 3600
#: Names that training writes in a run's folder. A folder that holds any other name is the user's own.
_OF_A_RUN = re.compile(
    rf"{re.escape(RECORD)}|{re.escape(HIDDEN_RECORD)}|{re.escape(WORK)}|{re.escape(LOCK)}|{re.escape(VLLM_LOG)}"
    rf"|{re.escape(DIVERGED)}"
    r"|model(-step[0-9]+)?|set_aside|tensorboard|wandb"
    r"|[a-z_]+\.parquet|gradients_step_[0-9]+\.npz|\..+\.tmp"
)
#: Number of parts of a path that the list shows, by the first part. So an arm's seeds, or a stage's logs, are one line.
_DEPTHS = {"runs": 2, "evaluation": 3, "scores": 3, "logs": 2, "benchmarks": 2}
#: Most lines of the list.
MOST = 60


@dataclass(frozen=True)
class Leftover:
    """A file or folder in the results folder that the study does not need, and what it is."""

    path: Path
    what: str

    def size(self) -> int:
        """Bytes of its files. Files behind links do not count."""
        if not self.path.is_dir():
            return self.path.lstat().st_size
        return sum(
            os.lstat(os.path.join(folder, name)).st_size for folder, _, names in os.walk(self.path) for name in names
        )


def unneeded(study: Study) -> list[Leftover]:
    """The files and folders in the results folder that the study does not need, sorted by path.

    Only paths of the kinds that the workflow makes are listed. Links, and everything behind them, are left alone.
    """
    root = study.root / study.config.root
    needed = needed_paths(replace(study, diverged={}))  # what a diverged run has is kept
    too_young = time.time() - _LEFT_OVER_AFTER
    leftovers: dict[Path, str] = {}
    for folder, folders, files in os.walk(root):
        for path in (Path(folder, name) for name in [*folders, *files]):
            if path.is_symlink():
                continue
            if _TEMPORARY.fullmatch(path.name) and path.lstat().st_mtime < too_young:
                leftovers[path] = "left over by a process that was killed"
            elif what := _kind(path, path.relative_to(root).as_posix(), study, needed):
                leftovers[path] = what
        # Other folders beside the study's own may be other studies. Training cleans up its hidden folders itself.
        folders[:] = [
            name
            for name in folders
            if name[0] != "." and Path(folder, name) not in leftovers and (Path(folder) != root or name in FOLDERS)
        ]
    return [Leftover(path, what) for path, what in sorted(leftovers.items())]


def needed_paths(study: Study) -> set[str]:
    """Every path that the study needs, relative to the results folder."""
    answers = [f"{model}/{data}" for model in ("base", *study.runs) for data in study.datasets]
    answers += [f"{run}/{data}.steps" for run in study.keeping_runs for data in study.datasets]
    sets = [study.problems_file, *(f"data/evaluation/{name}.parquet" for name in study.datasets)]
    sets += [study.demonstrations_file] if study.demonstrations_file else []
    exports = {str(PurePath(file).parent) for file in study.exports}
    models = ["base", *study.runs]
    logs = [f"train/{run}" for run in study.runs] + [f"evaluate/{model}" for model in models]
    logs += [f"evaluate/{name}" for name in answers]  # older versions evaluated each set by itself
    logs += [f"prepare/evaluation/{name}" for name in study.datasets]
    logs += [f"fetch/reward-{key}" for key in study.reward_models]
    logs += [folder.replace("exports/", "export/", 1) for folder in exports]
    start = PurePath(study.model_file).parent
    paths = {f"runs/{run}" for run in study.runs} | {str(PurePath(study.fetched_file).parent), str(start)}
    paths |= {str(PurePath(file).parent) for file in study.fetched_reward_models}
    paths |= {f"{study.answers_folder}/{model}/{UNFINISHED}" for model in models}
    if not (study.root / study.config.root / study.model_file).is_file():
        paths.add(f"models/.{start.name}{SFT_WORK}")
    tables = [*sets, *study.scores, *(f"{study.answers_folder}/{name}.parquet" for name in answers)]
    paths |= {name.removesuffix(".parquet") + ending for name in tables for ending in (".parquet", ".json")}
    paths |= {f"logs/{name}.log" for name in logs} | {f"benchmarks/{name}.tsv" for name in logs}
    if study.scores:
        paths |= {f"logs/score/{name}.log" for name in answers} | {f"benchmarks/score/{name}.tsv" for name in answers}
    return paths | exports | set(study.exports)


def _kind(path: Path, name: str, study: Study, needed: set[str]) -> str | None:
    """What an unneeded path is, in words; None where the study needs it, or the workflow did not make it."""
    if name in needed or (path.suffix == ".npz" and str(PurePath(name).parent) in needed):
        return None
    kinds = _FOLDER_KINDS if path.is_dir() else _FILE_KINDS
    what = next((what for pattern, what in kinds.items() if re.fullmatch(pattern, name)), None)
    if what == "run":
        finished = (path / RECORD).is_file() or (path / HIDDEN_RECORD).is_file()
        of_the_study = path.parent.name in study.folders.values()
        whose = "of a seed that the study does not have" if of_the_study else "of another config"
        return f"{'finished' if finished else 'unfinished'} run {whose}"
    if what and what.endswith("model of another config") and not _is_a_fetched_model(path):
        return None
    return f"{'log' if name.startswith('logs/') else 'benchmark'} {what}" if what and what.startswith("of ") else what


def _is_a_fetched_model(folder: Path) -> bool:
    """Whether the folder holds only files that its record lists."""
    try:
        listed = set(json.loads((folder / "model.json").read_bytes())["files"])
    except (OSError, ValueError, TypeError, KeyError):
        return False
    return set(os.listdir(folder)) <= listed | {"model.json"}


def foreign_in(run: Path) -> list[str]:
    """Names in a run's folder that training does not write."""
    return sorted(name for name in os.listdir(run) if not _OF_A_RUN.fullmatch(name))


def delete(leftover: Leftover, root: Path) -> str | None:
    """Delete a leftover, and then the folders above that are empty.

    Returns
    -------
    str or None
        Why the leftover was kept; None where it was deleted.
    """
    path = leftover.path
    try:
        if not path.is_dir():
            path.unlink(missing_ok=True)
        elif re.fullmatch(_SEED, path.name):
            if foreign := foreign_in(path):
                return f"holds {foreign[0]}, which is not the workflow's"
            with take(path / LOCK):
                for record in (RECORD, HIDDEN_RECORD):  # first, so that a half-deleted run does not count as finished
                    (path / record).unlink(missing_ok=True)
                shutil.rmtree(path)
        else:
            hidden = path if path.name.startswith(".") else path.with_name(f".{path.name}.old")
            may_be_in_use = path.name in (PREVIEW, UNFINISHED) or path.name.endswith(SFT_WORK)
            with take(path / LOCK) if may_be_in_use else nullcontext():
                os.replace(path, hidden)  # in one step, so that a half-deleted folder does not look complete
                shutil.rmtree(hidden)
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


def prune_text(study: Study, leftovers: Sequence[Leftover], deleted: bool) -> str:
    """The list of leftovers: a line for each folder and kind, with its size. `deleted`: they are deleted now."""
    name = study.config.name
    if not leftovers:
        return f"study {name}: nothing in {study.config.root} that the study does not need"
    grouped: dict[tuple[Path, str], list[int]] = {}
    for leftover in leftovers:
        path = leftover.path.relative_to(study.root / study.config.root)
        shown = Path(study.config.root, *path.parts[: _DEPTHS.get(path.parts[0])])
        grouped.setdefault((shown, leftover.what), []).append(leftover.size())
    lines = []
    for (path, what), sizes in list(grouped.items())[:MOST]:
        count = f"{len(sizes)} × " if len(sizes) > 1 else ""
        lines.append(f"{size_text(sum(sizes)):>9}  {path}: {count}{what}")
    if len(grouped) > MOST:
        lines.append(f"{'':9}  and {len(grouped) - MOST} more lines")
    head = f"study {name}: deleted" if deleted else f"study {name} does not need:"
    total = f"{size_text(sum(map(sum, grouped.values())))} in all"
    return "\n".join([head, "", *lines, "", total if deleted else f"{total}; `snakemake prune delete` deletes it"])


def size_text(size: float) -> str:
    """`512 B`, `3.1 MB`, in powers of 1000."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 9.95 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
