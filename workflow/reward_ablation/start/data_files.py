"""Checks of a user's own data files before any job, where a set is not prepared yet. The jobs check the rest."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from reward_ablation.study.study import Study
from reward_ablation.system.errors import StudyError
from reward_ablation.system.git_lfs import refuse_lfs_pointer

#: Largest file, in bytes, that is read before the jobs: reading takes a few seconds. Parquet is left to the jobs,
#: because a small file can need much memory.
LARGEST = 2**26
TEXTS = (".json", ".jsonl", ".ndjson", ".csv")


def check_data_files(study: Study) -> None:
    """Refuse Git LFS pointers, and rows of local files that the jobs would refuse later.

    Raises StudyError, with a message such as `data.train: file: line or row: what is wrong; what to do`.
    """
    for key, output, spec in _sets(study):
        path = Path(json.loads(spec)["source"].get("path") or "")
        if (study.root / study.config.root / output).exists() or not path.is_file():
            continue
        try:
            refuse_lfs_pointer(path, str(path))
            if path.suffix.lower() in TEXTS and path.stat().st_size <= LARGEST:
                _check_rows(spec, path)
        except ValueError as error:  # StudyError included
            raise StudyError(f"{key}: {error}") from None


def _sets(study: Study) -> Iterator[tuple[str, str, str]]:
    """Of each set of problems: its key in the config, its prepared file and the spec of its preparation."""
    yield "data.train", study.problems_file, study.train_data_spec(None)
    for dataset, spec in study.datasets.items():
        yield f"data.evaluation.{dataset.rpartition('-')[0]}", f"data/evaluation/{dataset}.parquet", spec
    if study.demonstrations_file:
        yield "sft.data", study.demonstrations_file, study.sft_data_spec(None)


def _check_rows(spec: str, path: Path) -> None:
    """Read the rows as the job will, and refuse texts that are not Unicode."""
    from reward_ablation.config.sections.data import further_columns
    from reward_ablation.data.problems import PrepareSpec, normalised  # here, because they are seldom needed
    from reward_ablation.data.sources import load

    parsed = PrepareSpec.model_validate_json(spec)
    rows = normalised(load(parsed.source, parsed.golds), str(path), further_columns(parsed.source))
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
