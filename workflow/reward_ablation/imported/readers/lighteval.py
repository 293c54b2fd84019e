"""lighteval: `details_TASK_DATE.parquet`, a row for each question with its document, response and metrics.

`reward-ablation import` calls `read_answers` for answers in the format `lighteval`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reward_ablation.config.config_errors import validate_spec
from reward_ablation.imported.files import parquet_batches, text
from reward_ablation.imported.readers import common
from reward_ablation.imported.readers.common import Record, Row, TaskOptions
from reward_ablation.imported.rows import Answers


def read_answers(path: Path, options: Row) -> Answers:
    """Answers to the questions of a task, or of several."""
    chosen = validate_spec(TaskOptions, options, "evaluation")
    files = common.files_of_tasks(path, "details", "parquet", chosen.task)
    missing: list[str] = []
    rows: list[Row] = []
    for task, file in files.items():
        for batch in parquet_batches(file, ["doc", "metric", "model_response"]):
            for value in batch.to_pylist():
                row = _row(Record(value, f"{file}: row {len(rows) + 1}"), chosen, missing)
                rows.append(common.of_task(row, task, files))
    return common.answers(path, rows, chosen.metric, missing)


def _row(record: Record, options: TaskOptions, missing: list[str]) -> Row:
    doc, completions = record.inner("doc"), record.inner("model_response")["text"]
    completions = completions if isinstance(completions, list) else []
    if not completions:
        missing.append("Answers that are chosen by their likelihood have no completions.")
    if len(completions) > 1:
        missing.append("lighteval keeps one score for all samples of a question; the first completion is here.")
    return {
        "problem_id": doc.text("id"),
        "question": doc.text("query"),
        "gold": _gold(doc["choices"], doc["gold_index"]),
        "mode": common.mode_of("sampled" if len(completions) > 1 else None, options, missing),
        "sample": 0,
        "completion": text(completions[0], f"{record.where}: text") if completions else None,
        "scores": record.inner("metric").scores(),
    }


def _gold(choices: Any, index: Any) -> str | None:
    """The right choices; lighteval's index is one number, or a list of numbers."""
    indices = index if isinstance(index, list) else [index]
    if not isinstance(choices, list) or not all(isinstance(at, int) and 0 <= at < len(choices) for at in indices):
        return None
    return "; ".join(str(choices[at]) for at in indices)
