"""The training set as TRL takes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
from datasets import Dataset


def training_dataset(problems: Path, render: Callable[[str], str | list[dict[str, str]]]) -> Dataset:
    """Prepared problems with their prompts.

    Parameters
    ----------
    problems : Path
        Parquet of the problem schema.
    render : callable
        Question to prompt: text, or a list of chat messages.

    Returns
    -------
    Dataset
        Columns `prompt` and `problem_id`, and the problem's own, which reward functions get:
        question, answer, solution, source, split, level, subject.
    """
    rows = pq.read_table(problems).to_pylist()
    return Dataset.from_list([{"prompt": render(row["question"]), "problem_id": row.pop("id"), **row} for row in rows])
