"""Checks of sets of problems before any job, where a set is not prepared yet and needs no download."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from reward_ablation.start.asking import ask
from reward_ablation.study.study import Study
from reward_ablation.system.errors import StudyError
from reward_ablation.system.git_lfs import refuse_lfs_pointer

#: Largest file, in bytes, that is read before the jobs: reading takes a few seconds.
LARGEST = 2**26
#: Formats whose memory is known by the size of the file. A small Parquet file can need much memory.
TEXTS = (".json", ".jsonl", ".ndjson", ".csv")
PARQUET = ".parquet"
_EVALUATION = "data.evaluation."


class ProblemSet(NamedTuple):
    """A set of problems of a study."""

    key: str  # in the config
    file: str  # the prepared set, below the results folder
    spec: str  # of its preparation, as JSON

    @property
    def source(self) -> dict[str, Any]:
        """Where the problems come from."""
        return json.loads(self.spec)["source"]

    @property
    def path(self) -> Path | None:
        """The local file of the problems; None if there is none."""
        path = Path(self.source.get("path") or "")
        return path if path.is_file() else None

    @property
    def is_on_hub(self) -> bool:
        """Whether the problems are those of a known data set, from the hub."""
        return bool(self.source.get("revision")) and not self.source.get("path")

    @property
    def is_quickly_read(self) -> bool:
        """Whether the problems are generated, or in a local file that is not large."""
        if self.path is None:
            return self.source["source"] == "word_problems"
        return self.path.suffix.lower() in (*TEXTS, PARQUET) and self.path.stat().st_size <= LARGEST


def sets_of(study: Study) -> Iterator[ProblemSet]:
    """The sets of a study, those for evaluation first."""
    for dataset, spec in study.datasets.items():
        yield ProblemSet(f"{_EVALUATION}{dataset.rpartition('-')[0]}", f"data/evaluation/{dataset}.parquet", spec)
    yield ProblemSet("data.train", study.problems_file, study.train_data_spec(None))
    if study.demonstrations_file:
        yield ProblemSet("sft.data", study.demonstrations_file, study.sft_data_spec(None))


def check_data_files(study: Study) -> None:
    """Refuse Git LFS pointers, missing columns, and rows of local text files that the jobs would refuse later.

    Rows of Parquet files are left to `try_preparation`. Raises StudyError, with a message such as `data.train: file:
    line or row: what is wrong; what to do`.
    """
    for each in sets_of(study):
        if (study.root / study.config.root / each.file).exists() or each.path is None:
            continue
        with named(each.key):
            check_file(each, each.path)
            if each.is_quickly_read and each.path.suffix.lower() in TEXTS:
                check_rows(parsed(each.spec), each.path)


@contextmanager
def named(key: str) -> Iterator[None]:
    """Put a key of the config before the message of a ValueError, StudyError included."""
    try:
        yield
    except ValueError as error:
        raise StudyError(f"{key}: {error}") from None


def parsed(spec: str) -> Any:
    """The spec of a preparation."""
    from reward_ablation.data.problems import PrepareSpec  # here, because it is seldom needed

    return PrepareSpec.model_validate_json(spec)


def check_file(each: ProblemSet, path: Path) -> None:
    """Refuse a Git LFS pointer, and a Parquet file without the columns that the config names; no row is read."""
    refuse_lfs_pointer(path, str(path))
    if path.suffix.lower() != PARQUET or each.source["source"] != "file":
        return
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        present = pq.read_schema(path).names
    except pa.ArrowException as error:
        raise StudyError(f"{path}: not a Parquet file ({str(error).splitlines()[0]})") from None
    spec = parsed(each.spec)
    names = {"question": "question"} | ({"answer": "answer"} if spec.golds else {}) | spec.source.columns
    for ours, theirs in names.items():
        if theirs is not None and theirs not in present and theirs.partition(".")[0] not in present:
            raise StudyError(
                f"{path}: no column '{theirs}'; name the file's column with columns: {{{ours}: ...}}; columns here: "
                f"{', '.join(present)}"
            )


def check_rows(spec: Any, path: str | Path) -> None:
    """Read the rows as the job will, and refuse texts that are not Unicode."""
    from reward_ablation.config.sections.data import further_columns
    from reward_ablation.data.problems import normalised  # here, because they are seldom needed
    from reward_ablation.data.sources import load

    rows = normalised(load(spec.source, spec.golds), str(path), further_columns(spec.source))
    for index, row in enumerate(rows):
        for column, value in row.items():
            try:
                json.dumps(value, ensure_ascii=False, default=str).encode()
            except UnicodeEncodeError as error:
                half = ascii(error.object[error.start])
                raise StudyError(
                    f"{path}: row {index}: {column} has half a character (a surrogate), {half}; take it out"
                ) from None
            except RecursionError:
                pass  # the job refuses it by name


class Tried(NamedTuple):
    """What the preparation of all sets will do."""

    problems: list[str]  # a line for each set that will be refused
    files: dict[str, Path]  # sets that are prepared, or prepared for trial, by key


def try_preparation(study: Study, prepares: frozenset[str], folder: Path, tell: Callable[[str], None]) -> Tried:
    """Prepare for trial, in the temporary folder `folder`, the sets that a start is about to prepare.

    Sets that need a download, and large ones, are left out. The names of `prepares` are below the results folder.
    """
    files, asked, problems = {}, {}, []
    results = study.root / study.config.root
    for each in sets_of(study):
        try:
            with named(each.key):
                if each.file in prepares and each.path is not None:
                    check_file(each, each.path)
        except StudyError as error:
            problems.append(str(error))
            continue
        if each.file not in prepares:
            files[each.key] = results / each.file
        elif each.is_quickly_read:
            files[each.key] = folder / each.file
            asked[each.key] = _request(each, files)
    if asked:
        tell(f"reading {', '.join(asked)} ...")
        for key, answer in zip(asked, ask("reward_ablation.start.ask_data", asked.values(), study.root), strict=True):
            problems += [f"{key}: {answer['error']}"] if answer["error"] else []
            for note in [*answer["notes"], *_dropped(files[key])]:
                tell(f"warning: {key}: {note}")
    return Tried(problems, {key: path for key, path in files.items() if path.is_file()})


def _request(each: ProblemSet, files: dict[str, Path]) -> str:
    """The line for `ask_data`, with the sets that this set is held apart from among `files`."""
    evaluation = [str(path) for key, path in files.items() if key.startswith(_EVALUATION)]
    apart = [] if each.key.startswith(_EVALUATION) else evaluation
    name = str(each.path or each.source["source"])
    return json.dumps({"spec": each.spec, "name": name, "output": str(files[each.key]), "apart_from": apart})


def _dropped(prepared: Path) -> list[str]:
    """A line if questions were dropped because an evaluation set has them too, by the record beside a prepared set."""
    record = prepared.with_suffix(".json")
    counts = json.loads(record.read_text()) if record.is_file() else {}
    if not (dropped := counts.get("dropped_overlap")):
        return []
    questions = f"{dropped} of {dropped + counts['rows']} questions are in an evaluation set too"
    return [f"{questions} and are taken out of this set (data.overlap: drop)"]
