"""Checks of sets of problems before any job, where a set is not prepared yet and needs no download.

The full check (`start.full_check`) prepares such sets for trial, and takes from here the problem for one trial call of
each reward. A dry run ends before the full check: the Snakefile then calls `check_data_files` alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from reward_ablation.config.sections.data import further_columns
from reward_ablation.rewards.columns import decoded, json_columns
from reward_ablation.rewards.trial import Trial, made_up_completions
from reward_ablation.sampling.prompts import render_prompt
from reward_ablation.study.run_folder import evaluation_file
from reward_ablation.study.study import Study
from reward_ablation.system.errors import StudyError
from reward_ablation.system.git_lfs import refuse_lfs_pointer
from reward_ablation.system.limits import within_limits

#: Largest file, in bytes, that is read before the jobs: reading takes a few seconds.
LARGEST = 2**26
#: Formats whose memory is known by the size of the file. A small Parquet file can need much memory.
TEXTS = (".json", ".jsonl", ".ndjson", ".csv")
PARQUET = ".parquet"
_EVALUATION = "data.evaluation."
#: Most seconds of processor time for the trial of a preparation, or for a check of `model_files`.
SECONDS = 600
#: Most bytes of memory for either. A Parquet file of 1 kB may hold 8 GB.
MEMORY = 8 * 2**30


class ProblemSet(NamedTuple):
    """A set of problems of a study."""

    key: str  # in the config
    file: str  # the prepared set, below the results folder
    spec: str  # of its preparation, as JSON

    @property
    def source(self) -> dict[str, Any]:
        return json.loads(self.spec)["source"]

    @property
    def path(self) -> Path | None:
        """The local file of the problems; None if there is none."""
        path = Path(self.source.get("path") or "")
        return path if path.is_file() else None

    @property
    def name(self) -> str:
        return str(self.path or self.source["source"])

    @property
    def is_quickly_read(self) -> bool:
        """Whether the problems are generated, or in a local file that is not large."""
        if self.path is None:
            return self.source["source"] == "word_problems"
        return self.path.suffix.lower() in (*TEXTS, PARQUET) and self.path.stat().st_size <= LARGEST


def sets_of(study: Study) -> Iterator[ProblemSet]:
    """The sets of a study, those for evaluation first."""
    for dataset, spec in study.datasets.items():
        yield ProblemSet(f"{_EVALUATION}{dataset.rpartition('-')[0]}", evaluation_file(dataset), spec)
    yield ProblemSet("data.train", study.problems_file, study.train_data_spec)
    if study.demonstrations_file and study.sft_data_spec:
        yield ProblemSet("sft.data", study.demonstrations_file, study.sft_data_spec)


def check_data_files(study: Study) -> None:
    """Refuse LFS pointers, missing columns, and rows of local text files that jobs would refuse; no rows of Parquet."""
    for each in sets_of(study):
        if (study.results / each.file).exists() or each.path is None:
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


def _rows_of(spec: Any, path: str | Path) -> Any:
    """The rows of a set, as the job will prepare them."""
    from reward_ablation.data.problems import normalised  # here, because they are seldom needed
    from reward_ablation.data.sources import load

    return normalised(load(spec.source, spec.golds), str(path), further_columns(spec.source))


def check_rows(spec: Any, path: str | Path) -> None:
    """Read the rows as the job will, and refuse texts that are not Unicode."""
    rows = _rows_of(spec, path)
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


def try_preparation(
    study: Study, makes: frozenset[str], folder: Path, tell: Callable[[str], None]
) -> tuple[list[str], dict[str, Path]]:
    """Prepare, for trial, small sets that need no download; lines on refused sets, and the prepared files by key."""
    files: dict[str, Path] = {}
    problems = []
    for each in sets_of(study):
        apart = [] if each.key.startswith(_EVALUATION) else [files[key] for key in files if key.startswith(_EVALUATION)]
        prepared = folder / each.file if each.file in makes else study.results / each.file
        try:
            with named(each.key):
                if each.file in makes and each.path is not None:
                    check_file(each, each.path)
                if each.file in makes and each.is_quickly_read:
                    tell(f"reading {each.key} ...")
                    work = partial(_prepare, each, prepared, apart)
                    within_limits(work, SECONDS, MEMORY, f"{each.name}: the preparation")
        except StudyError as error:
            problems.append(str(error))
        if prepared.is_file():
            files[each.key] = prepared
            for note in _notes(prepared) if each.file in makes else []:
                tell(f"warning: {each.key}: {note}")
    return problems, files


def _prepare(each: ProblemSet, output: Path, apart: list[Path]) -> None:
    """Prepare a set; a StudyError names the row if it can."""
    from reward_ablation.data.problems import prepare

    spec = parsed(each.spec)
    try:
        prepare(spec, each.name, output, apart)
    except StudyError:
        if each.path is not None:
            check_rows(spec, each.path)
        raise


def _notes(prepared: Path) -> list[str]:
    """Lines on what the preparation left out silently, by the record beside a prepared set."""
    counts = json.loads(prepared.with_suffix(".json").read_text())
    whole = counts["rows"] + counts["dropped_overlap"]
    dropped = (
        f"{counts['dropped_overlap']} of {whole} questions are in an evaluation set too and are taken out of this set"
    )
    missing = f"golds that count as missing: {', '.join(counts.get('golds_taken_as_missing', ()))}"
    return [dropped] * bool(counts["dropped_overlap"]) + [missing] * ("golds_taken_as_missing" in counts)


#: Completions of the group where the config has no valid number: TRL's default.
GROUP = 8
#: Most completions of the call, so that a plan does not wait for a slow function.
MOST = 64


def trial_of(study: Study) -> Trial:
    """A group of completions of the first training problem, or of a made-up one where it is not quickly read."""
    config = study.config
    problem = _prepared(study.root / config.root / study.problems_file) or _of_source(study)
    made_up = problem is None
    problem = problem or _made_up(study)
    wanted = config.training.get("num_generations")
    number = min(wanted, MOST) if isinstance(wanted, int) and wanted > 0 else GROUP
    texts = made_up_completions(problem["answer"] or problem["question"], number)
    completions = [[{"role": "assistant", "content": text}] for text in texts] if config.prompt.chat else texts
    row = {
        "prompts": render_prompt(problem["question"], config.prompt),
        "problem_id": problem["id"],
        **{name: value for name, value in problem.items() if name != "id"},
    }
    columns: dict[str, list[Any]] = {name: [value] * len(texts) for name, value in row.items()}
    tokens = [list(range(1, len(text.split()) + 2)) for text in texts]  # at least an end token
    return Trial({**columns, "completions": completions, "completion_ids": tokens}, made_up)


def _prepared(path: Path) -> dict[str, Any] | None:
    """The first problem of a prepared set; None if it is not there."""
    import pyarrow.parquet as pq

    if not path.is_file():
        return None
    with pq.ParquetFile(path) as file:
        rows = next(file.iter_batches(batch_size=1)).to_pylist()
        objects = json_columns(file.schema_arrow)
    return {name: decoded([value])[0] if name in objects else value for name, value in rows[0].items()}


def _of_source(study: Study) -> dict[str, Any] | None:
    """The first problem of a quickly read set, but of no Parquet file: a small one can need much memory."""
    training = next(each for each in sets_of(study) if each.key == "data.train")
    if not training.is_quickly_read or (training.path and training.path.suffix.lower() == PARQUET):
        return None
    spec = parsed(training.spec)
    try:
        rows = _rows_of(spec, training.name)
    except StudyError:  # the job that prepares the set tells it
        return None
    return next((row for row in rows if row["answer"] or not spec.golds), None)


def _made_up(study: Study) -> dict[str, Any]:
    """A problem with the training set's columns."""
    further = dict.fromkeys(further_columns(study.config.data.train), "made up")
    texts = {"id": "made-up/0", "question": "What is 6 times 7?", "answer": "42", "solution": "6 times 7 is 42."}
    others = {"source": study.config.data.train.source, "split": "train", "level": None, "subject": None}
    return {**texts, **others, **further}
