"""The files of the results folder: `prune` deletes what the study does not need, and `verify` reads what is recorded.

`prune` deletes runs that cost more than an hour, with all that belongs to them, only with `--costly`. `verify`
leaves out logs, scores, tables and figures: these are made again in minutes from the files that have digests.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePath

from rich.filesize import decimal

from reward_ablation.spec.canonical import KEY_DIGITS
from reward_ablation.start.history import (
    BROKEN,
    KEYED,
    MISSING,
    RUN,
    SEED,
    Damage,
    is_held,
    read_record,
    recorded_files,
    size_of,
    size_problem,
)
from reward_ablation.start.plan import hours_text, plural
from reward_ablation.start.signs import read_attempts
from reward_ablation.start.status import hours_of
from reward_ablation.study.answers_record import record_beside
from reward_ablation.study.run_folder import (
    DIVERGED,
    FOLDERS,
    HIDDEN_RECORD,
    LOCK,
    PREVIEW,
    PRUNED,
    RECORD,
    SFT_WORK,
    UNFINISHED,
    VLLM_LOG,
    WORK,
)
from reward_ablation.study.standing import is_begun
from reward_ablation.study.study import Study
from reward_ablation.system.digests import digest_where_present
from reward_ablation.system.files import sha256
from reward_ablation.system.locks import Held, take
from reward_ablation.system.strict_text import load_json

_KEY = rf"[0-9a-f]{{{KEY_DIGITS}}}"
_MODEL = f"(?:base|{RUN})"
_LOG = r"(?:logs|benchmarks)/(?:train|evaluate|score|prepare|fetch)/[\w./-]*"
#: Folders and files that the workflow makes for a config: what they are, by patterns of paths in the results folder.
_FOLDER_KINDS = {
    f"runs/{RUN}": "run",
    PREVIEW: "preview, which `reward-ablation preview` makes again",
    rf"evaluation/{_KEY}/{_MODEL}/{re.escape(UNFINISHED)}": "unfinished answers that the study does not have",
    f"models/base-{_KEY}": "base model of another config",
    f"models/reward-{_KEY}": "reward model of another config",
    rf"models/\.base-{_KEY}{re.escape(SFT_WORK)}": "unfinished supervised start of another config",
}
_FILE_KINDS = {
    rf"evaluation/{_KEY}/{_MODEL}/{KEYED}(?:\.steps)?\.(?:parquet|json)": "answers that the study does not have",
    rf"scores/{_KEY}-{_KEY}/{_MODEL}/{KEYED}(?:\.steps)?\.(?:parquet|json)": "scores that the study does not have",
    rf"models/base-{_KEY}\.json": "record of a supervised start of another config",
    rf"data/sft-{_KEY}\.(?:parquet|json)": "set of demonstrations of another config",
    rf"data/{KEYED}\.(?:parquet|json)": "training set of another config",
    rf"data/evaluation/{KEYED}\.(?:parquet|json)": "evaluation set of another config",
    rf"{_LOG}-{_KEY}(?:/{SEED}|\.steps)?\.(?:log|tsv)": "log of what the study does not have",
}
_TEMPORARY = re.compile(r"\..+(?<!\.fetch)\.tmp|\..+\.(fetching|old)")  # `.fetch.tmp` is a lock, also while old
#: A temporary file counts as left over once nobody has written to it for this many seconds, a free choice.
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
#: Most lines of the list, a free choice.
MOST = 60
#: A run that cost more than this many hours of GPU time is costly; without a GPU, hours of CPU time.
COSTLY_HOURS = 1.0


@dataclass(frozen=True)
class Leftover:
    """A file or folder in the results folder that the study does not need, and what it is."""

    path: Path
    what: str

    def size(self) -> int:
        """Bytes of its files, without files that are gone meanwhile. Files behind links do not count."""
        files = [str(self.path)]
        if self.path.is_dir():
            files = [os.path.join(folder, name) for folder, _, names in os.walk(self.path) for name in names]
        total = 0
        for file in files:
            with suppress(FileNotFoundError):
                total += os.lstat(file).st_size
        return total

    @property
    def owner(self) -> str:
        """The run that this is or belongs to; else the path without its ending, shared by answers and record."""
        found = [match[0] for match in re.finditer(RUN, self.path.as_posix())]
        return found[-1] if found else str(self.path.with_suffix(""))

    @cached_property
    def cost(self) -> tuple[float, bool]:
        """Hours by records, infinite where not known, as of a supervised start; and whether of GPUs, else CPUs."""
        unknown = 0.0
        if _is_supervised_start(self.path):
            return math.inf, True
        if self.path.is_dir() and re.fullmatch(SEED, self.path.name):
            records = [read_record(self.path, name) for name in (RECORD, HIDDEN_RECORD)]
            attempts = read_attempts(self.path / WORK)
            record = {"gpu_hours": hours_of(attempts, True), "cpu_hours": hours_of(attempts, False)}
            if any(each is not None for each in records):
                record, unknown = records[0] or records[1] or {}, math.inf
        else:
            is_table = self.path.suffix == ".parquet"
            record = (is_table and read_record(self.path.parent, f"{self.path.stem}.json")) or {}
        hours = [record.get(key) for key in ("gpu_hours", "cpu_hours")]
        gpu, cpu = (each if isinstance(each, int | float) else unknown for each in hours)
        return (gpu, True) if gpu > 0 else (cpu, False)


def unneeded(study: Study) -> list[Leftover]:
    """Files and folders of kinds that the workflow makes and the study does not need, by path; nothing behind links."""
    needed = needed_paths(replace(study, diverged={}))  # all that a diverged run has is needed, too
    root, too_young = study.results, time.time() - _LEFT_OVER_AFTER
    leftovers: dict[Path, str] = {}
    for folder, folders, files in os.walk(root):
        for path in (Path(folder, name) for name in [*folders, *files]):
            if path.is_symlink():
                continue
            relative = path.relative_to(root).as_posix()
            if _TEMPORARY.fullmatch(path.name) and relative not in needed and _last_change(path) < too_young:
                leftovers[path] = "left over by a process that was killed"
            elif what := _kind(path, relative, study, needed):
                leftovers[path] = what
        # Other folders beside the study's own may be other studies. Training cleans up its hidden folders itself.
        folders[:] = [
            name
            for name in folders
            if name[0] != "." and Path(folder, name) not in leftovers and (Path(folder) != root or name in FOLDERS)
        ]
    return [Leftover(path, what) for path, what in sorted(leftovers.items())]


def needed_paths(study: Study) -> set[str]:
    """Every path that the study needs, of those that `_kind` could take for unneeded, below the results folder."""
    models = ["base", *study.runs]
    answers = [f"{model}/{data}" for model in models for data in study.datasets]
    answers += [f"{run}/{data}.steps" for run in study.keeping_runs for data in study.datasets]
    tables = [study.problems_file, *study.evaluation_files, *study.scores]
    tables += [f"{study.answers_folder}/{name}.parquet" for name in answers]
    tables += [study.demonstrations_file] if study.demonstrations_file else []
    logs = [f"train/{run}" for run in study.runs] + [f"evaluate/{model}" for model in models]
    logs += [f"evaluate/{name}" for name in answers]  # older versions evaluated each set by itself
    logs += [f"score/{name}" for name in answers] if study.scores else []
    logs += [f"prepare/evaluation/{name}" for name in study.datasets]
    logs += [f"fetch/reward-{key}" for key in study.reward_models]
    start = PurePath(study.model_file).parent
    paths = {f"runs/{run}" for run in study.runs} | {str(start), f"{start}.json"}
    paths |= {str(PurePath(file).parent) for file in (study.fetched_file, *study.fetched_reward_models)}
    paths |= {f"{study.answers_folder}/{model}/{UNFINISHED}" for model in models}
    # Counts of paid requests of scorings that failed, which the next scoring adds.
    paths |= {str(file.with_name(f".{file.stem}.requests.tmp")) for file in map(PurePath, study.scores)}
    if not (study.results / study.model_file).is_file():
        paths.add(f"models/.{start.name}{SFT_WORK}")
    paths |= {name.removesuffix(".parquet") + ending for name in tables for ending in (".parquet", ".json")}
    paths |= {file for name in logs for file in (f"logs/{name}.log", f"benchmarks/{name}.tsv")}
    return paths


def _kind(path: Path, name: str, study: Study, needed: set[str]) -> str | None:
    """What an unneeded path is; None where it is needed or a user's own."""
    if name in needed:
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
    return what


def _last_change(path: Path) -> float:
    """When a file, or the last one in a folder, was written to: a folder's own time stays while its files grow."""
    inside = (os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
    times = []
    for each in (str(path), *inside):
        with suppress(FileNotFoundError):  # renamed meanwhile
            times.append(os.lstat(each).st_mtime)
    return max(times, default=math.inf)


def _is_supervised_start(path: Path) -> bool:
    """Whether this is the folder of a supervised start, or of an unfinished one."""
    if path.parent.name != "models" or not path.is_dir():
        return False
    return path.name.endswith(SFT_WORK) or (read_record(path, "model.json") or {}).get("source") == "sft"


def _is_a_fetched_model(folder: Path) -> bool:
    """Whether the folder holds only files that its record lists."""
    try:
        listed = set(load_json((folder / "model.json").read_bytes())["files"])
    except (OSError, ValueError, TypeError, KeyError):
        return False
    return set(os.listdir(folder)) <= listed | {"model.json"}


def remove(study: Study, leftovers: Sequence[Leftover], tell: Callable[[str], None], costly: bool = False) -> None:
    """Delete leftovers, but leftovers of costly runs only with `costly`, and tell what stays and why."""
    costly_ones = [] if costly else costly_leftovers(leftovers)
    kept = {leftover.path for leftover in costly_ones}
    cheap = [leftover for leftover in leftovers if leftover.path not in kept]
    if cheap:
        tell(f"study {study.config.name}: deleted\n")
        tell("\n".join(_lines(study, cheap)))
    for leftover in cheap:
        if kept_because := delete(leftover, study.results):
            tell(f"kept: {leftover.path.relative_to(study.root)}: {kept_because}")
    if costly_ones:
        tell(f"kept: {_costly_text(costly_ones)}")


def costly_leftovers(leftovers: Sequence[Leftover]) -> list[Leftover]:
    """The leftovers of runs, supervised starts and answers that cost more than `COSTLY_HOURS` by their records."""
    costly_ones = {leftover.owner for leftover in leftovers if leftover.cost[0] > COSTLY_HOURS}
    return [leftover for leftover in leftovers if leftover.owner in costly_ones]


def foreign_in(run: Path) -> list[str]:
    """Names in a run's folder that are not the workflow's own."""
    return sorted(name for name in os.listdir(run) if not _OF_A_RUN.fullmatch(name))


def delete(leftover: Leftover, root: Path) -> str | None:
    """Delete a leftover and empty folders above. Returns why it was kept, or what is left to do."""
    path = leftover.path
    is_run = path.is_dir() and bool(re.fullmatch(SEED, path.name))
    may_be_in_use = is_run or path.name in (PREVIEW, UNFINISHED) or path.name.endswith((SFT_WORK, ".requests.tmp"))
    if is_run and (foreign := foreign_in(path)):
        return f"holds {foreign[0]}, which is not the workflow's"
    try:
        with take(path / LOCK) if may_be_in_use else nullcontext():
            if not path.is_dir():
                path.unlink(missing_ok=True)
            elif is_run:
                name = f"{path.parent.name}/{path.name}"
                noted = not is_begun(path) or _note(name, root)  # first, so that a half-deleted run stays in the count
                for record in (RECORD, HIDDEN_RECORD):  # then, so that a half-deleted run does not count as finished
                    (path / record).unlink(missing_ok=True)
                shutil.rmtree(path)
                if not noted and not _note(name, root):
                    return f"is deleted, but {root / PRUNED} cannot be written: add the line {name} there"
            else:
                hidden = path if path.name.startswith(".") else path.with_name(f".{path.name}.old")
                os.replace(path, hidden)  # in one step, so that a half-deleted folder does not look complete
                shutil.rmtree(hidden)
    except Held as error:
        return f"{error} is at work there"
    except OSError as error:
        return f"cannot be deleted whole: {error.strerror}"
    for folder in path.parents:
        if folder == root or root not in folder.parents:
            break
        with suppress(OSError):  # not empty
            folder.rmdir()
    return None


def _note(run: str, root: Path) -> bool:
    """Note, in the file of pruned runs, the name of a run that had begun; False where it cannot be written."""
    try:
        with open(root / PRUNED, "a") as names:
            names.write(f"{run}\n")
    except OSError:
        return False
    return True


def prune_text(study: Study, leftovers: Sequence[Leftover]) -> str:
    """The list of leftovers, a line for each folder and kind with its size, and what to do."""
    name = study.config.name
    if not leftovers:
        return f"study {name}: nothing in {study.config.root} that the study does not need"
    costly_ones = costly_leftovers(leftovers)
    lines = [f"study {name} does not need:", "", *_lines(study, leftovers), ""]
    lines.append(f"{_price(leftovers)} in all; `reward-ablation prune --delete` deletes it")
    return "\n".join([*lines, *([f"but for {_costly_text(costly_ones)}"] if costly_ones else [])])


def _costly_text(costly_ones: Sequence[Leftover]) -> str:
    runs = plural(len({leftover.owner for leftover in costly_ones}), "run")
    return f"{runs} of more than {COSTLY_HOURS:g} hour, {_price(costly_ones)}; --delete --costly deletes them, too"


def _lines(study: Study, leftovers: Sequence[Leftover]) -> list[str]:
    """A line for each folder and kind: its size, number and hours."""
    grouped: dict[tuple[Path, str], list[Leftover]] = {}
    for leftover in leftovers:
        parts = leftover.path.relative_to(study.results).parts
        shown = Path(study.config.root, *parts[: _DEPTHS.get(parts[0])])
        grouped.setdefault((shown, leftover.what), []).append(leftover)
    lines = []
    for (path, what), group in list(grouped.items())[:MOST]:
        size, _, hours = _price(group).partition(", ")
        count = f"{len(group)} × " if len(group) > 1 else ""
        lines.append(f"{size:>9}  {path}: {count}{what}{f', {hours}' if hours else ''}")
    if len(grouped) > MOST:
        lines.append(f"{'':9}  and {len(grouped) - MOST} more lines")
    return lines


def _price(leftovers: Sequence[Leftover]) -> str:
    """`3.1 MB`, and behind it the hours that they cost, if any: `3.1 MB, 12.5 GPU hours`."""
    words = [decimal(sum(leftover.size() for leftover in leftovers))]
    for on_gpus in (True, False):
        hours = [hours for hours, of_gpus in (leftover.cost for leftover in leftovers) if hours and of_gpus == on_gpus]
        if math.inf in hours:
            words.append("unknown hours")
        elif hours:
            words.append(hours_text(sum(hours), on_gpus))
    return ", ".join(words)


#: Seconds between two progress lines.
PROGRESS_SECONDS = 5.0


@dataclass(frozen=True)
class RecordedFile:
    """A file to verify, by its path from the results folder."""

    file: str
    #: SHA-256. None where none is recorded: then the checksums in a Parquet file's pages are verified. A model's file
    #: whose record has no digest gets a text that is the digest of no file, so that it counts as damaged.
    digest: str | None
    #: What is wrong with the file, as far as that shows without reading the file; None where nothing is.
    problem: str | None
    remedy: str  # what repairs the file
    #: Whether a start looks at this file's size. It repairs a wrong size by itself, but other bytes of the same size it
    #: does not see, so that the user must delete the file.
    is_checked: bool = False

    def damage(self, root: Path) -> str | None:
        """What is wrong with the file and what repairs it, in words; None where nothing is wrong."""
        if self.problem is not None:
            return f"{self.problem}; {self.remedy}"
        problem = _content_problem(root / self.file, self.digest)
        return problem and f"{problem}; {'delete the file, and ' if self.is_checked else ''}{self.remedy}"


def verify(study: Study, tell: Callable[[str], None], tell_progress: Callable[[str], None]) -> int:
    """Read recorded files again and return the number of damaged ones; `tell` gets their lines, then a line in all."""
    root, damaged, read, last_progress = study.results, 0, 0, time.monotonic()
    in_training = [name for name in study.runs if is_held(root / "runs" / name / LOCK) is True]
    files = [*_recorded_inputs(study), *_recorded_runs(study, in_training), *_recorded_answers(study)]
    sizes = [size_of(f"{root}/{recorded.file}") or 0 for recorded in files]
    total = decimal(sum(sizes))
    for recorded, size in zip(files, sizes, strict=True):
        if time.monotonic() - last_progress > PROGRESS_SECONDS:
            last_progress = time.monotonic()
            tell_progress(f"verify: {decimal(read)} of {total} read, {damaged} files damaged")
        if problem := recorded.damage(root):
            damaged += 1
            tell(f"damaged: {study.config.root}/{recorded.file} {problem}")
        read += size
    tell(f"verified {len(files)} files, {total}: {f'{damaged} damaged' if damaged else 'none is damaged'}")
    if in_training:
        tell(f"runs not verified, because they are being trained: {', '.join(in_training)}")
    return damaged


def _recorded_inputs(study: Study) -> Iterator[RecordedFile]:
    """Files of the fetched model, of the supervised start and of the reward models, and the prepared sets."""
    root = study.results
    for file in dict.fromkeys((study.fetched_file, study.model_file, *study.fetched_reward_models)):
        folder = file.rpartition("/")[0]
        remedy = f"delete {study.config.root}/{folder}: the model is made again once a job needs it"
        record = read_record(root, file)
        if record is BROKEN:
            yield RecordedFile(file, None, "cannot be read", remedy)
        for name, entry in ((record or {}).get("files") or {}).items():
            size, digest = (entry.get("size"), entry.get("sha256")) if isinstance(entry, dict) else (None, None)
            problem = size_problem(f"{root}/{folder}/{name}", size, may_be_empty=True)
            yield RecordedFile(f"{folder}/{name}", digest or "none", problem, remedy)
    remedy = "delete the file: the data are prepared again once a job needs them"
    for data in (study.demonstrations_file, study.problems_file, *study.evaluation_files):
        if data is not None and (root / data).is_file():
            yield RecordedFile(data, _digest_beside(root, data), None, remedy)


def _recorded_runs(study: Study, in_training: Sequence[str]) -> Iterator[RecordedFile]:
    """Files of finished runs not in training, without models that the user deleted where `run.json` is whole."""
    root, damage = study.results, Damage(study)
    for name in (name for name in study.runs if name not in in_training):
        read = read_record(root / "runs" / name)
        copy = read_record(root / "runs" / name, HIDDEN_RECORD)
        record = read or copy or {}
        on_gpus = study.runs[name].launch.gpus > 0
        hours = record.get("gpu_hours" if on_gpus else "cpu_hours")
        price = "" if hours is None else f" ({hours_text(hours, on_gpus)})"
        again = f"the next start trains the run again{price}"
        if read is BROKEN:
            remedy = "the next start writes the record again" if copy else again
            yield RecordedFile(f"runs/{name}/{RECORD}", None, "cannot be read", remedy)
        written = digest_where_present(root / "runs" / name / HIDDEN_RECORD)
        if read and copy and written != digest_where_present(root / "runs" / name / RECORD):
            remedy = f"compare the two, and copy {HIDDEN_RECORD} over it (cp -p), as training wrote it"
            yield RecordedFile(f"runs/{name}/{RECORD}", None, f"differs from its copy {HIDDEN_RECORD}", remedy)
        damaged = dict(damage.files_of_run(name, record, with_models=not read))
        for file, digest, _ in recorded_files(record):
            path = f"runs/{name}/{file}"
            if file in damaged or size_of(f"{root}/{path}") is not None:
                yield RecordedFile(path, digest, damaged.get(file), again, is_checked=True)


def _recorded_answers(study: Study) -> Iterator[RecordedFile]:
    """The files of answers that exist, of the base model and of the runs."""
    root, damage = study.results, Damage(study)
    remedy = "the next start makes the answers again"
    for model in ("base", *study.runs):
        damaged = damage.of_answers(model)
        for file in damage.answer_files(model):
            if (root / file).is_file():
                yield RecordedFile(file, _digest_beside(root, file), damaged.get(file), remedy, is_checked=True)


def _digest_beside(root: Path, file: str) -> str | None:
    return (read_record(root, record_beside(file)) or {}).get("sha256")


def _content_problem(path: Path, digest: str | None) -> str | None:
    """What is wrong with the bytes of a file, in words; None where nothing is."""
    import pyarrow.parquet as pq

    try:
        if digest is None:
            pq.read_table(path, page_checksum_verification=True)
            return None
        actual = sha256(path)
    except FileNotFoundError:
        return MISSING
    except (OSError, ValueError) as error:
        if digest is None:
            return f"is no whole Parquet file ({str(error).splitlines()[0].rstrip('.')})"
        return f"cannot be read ({getattr(error, 'strerror', error)})"
    return (
        None if actual == digest else f"has other bytes: its SHA-256 starts with {actual[:8]} instead of {digest[:8]}"
    )
