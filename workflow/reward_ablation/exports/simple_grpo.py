"""simple_grpo's files: each rollout, and the greedy answers before and after training, a JSON object a line.

Its steps count from 0, ours from 1: step N in these files is our step N + 1.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from reward_ablation.analysis.reading import read_parquet
from reward_ablation.exports.runs import read_finished, rollouts_by_step
from reward_ablation.rewards import grade_batch
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import atomic_path

ROLLOUTS = "rollouts.jsonl"
EVALUATION = "evaluation.json"

Prompts = Mapping[str, str]
Lines = Iterable[Mapping[str, Any]]


def evaluation_file(moment: str, dataset: str) -> str:
    """Name of the file of answers to a data set; the moment is before or after training."""
    return f"eval_{moment}_{dataset}.jsonl"


def rollout_lines(run: Path, prompts: Prompts, golds: Mapping[str, str], answer_format: str) -> Iterator[dict]:
    """The lines of `rollouts.jsonl`, in the order of `rollouts.parquet`.

    Parameters
    ----------
    run : Path
        Folder of a finished run.
    prompts, golds : mapping of str to str
        By problem id, of the training set.
    answer_format : str
        Where strict accuracy looks for the answer; it is graded here, whatever the run was trained on.
    """
    for step, rows in rollouts_by_step(run, ["problem_id", "completion", "total"]):
        gold_of_row = [golds[row["problem_id"]] for row in rows]
        grades = grade_batch([row["completion"] for row in rows], gold_of_row, answer_format)
        for row, gold, grade in zip(rows, gold_of_row, grades, strict=True):
            prompt = prompts[row["problem_id"]]
            yield {
                "step": step - 1,
                "prompt_id": prompt_id(prompt),
                "prompt": prompt,
                "completion": row["completion"],
                "prediction": grade.answer,
                "ground_truth": gold,
                "reward": row["total"],
                "correct": grade.status == "correct",
            }


def prompt_id(prompt: str) -> str:
    """The id of a prompt as simple_grpo has it: the first 12 hex digits of its SHA-1."""
    return hashlib.sha1(prompt.encode(), usedforsecurity=False).hexdigest()[:12]


def export_rollouts(
    run: Path, prompts: Prompts, golds: Mapping[str, str], problems_digest: str, answer_format: str, output: Path
) -> None:
    """Write `rollouts.jsonl`.

    Raises
    ------
    StudyError
        The run was trained on other problems than these.
    """
    record = read_finished(run)
    if record["inputs"].get("problems") != problems_digest:
        raise StudyError(f"{run}: trained on another version of its problems; run the workflow again")
    write_lines(rollout_lines(run, prompts, golds, answer_format), output)


def answer_lines(answers: Path, prompts: Prompts, golds: Mapping[str, str]) -> tuple[list[dict], dict[str, float]]:
    """Lines of a file of greedy answers, and their summary.

    Returns
    -------
    lines : list of dict
        Graded strictly, in the order of the questions.
    summary : dict
        `eval_accuracy`, in [0, 1]; `eval_avg_new_tokens`, with the end token and without padding.
    """
    table = read_parquet(answers, ["problem_id", "mode", "completion", "answer", "correct_strict", "tokens"])
    greedy = table[table["mode"] == "greedy"].to_dict("records")
    lines = [
        {
            "prompt": prompts[row["problem_id"]],
            "gt": golds[row["problem_id"]],
            "pred": row["answer"] if isinstance(row["answer"], str) else None,
            "completion": row["completion"],
            "correct": bool(row["correct_strict"]),
        }
        for row in greedy
    ]
    return lines, {
        "eval_accuracy": sum(line["correct"] for line in lines) / len(lines),
        "eval_avg_new_tokens": sum(row["tokens"] for row in greedy) / len(lines),
    }


def write_lines(lines: Lines, output: Path) -> None:
    """Write JSON Lines, in one move."""
    with atomic_path(output) as temporary, temporary.open("w", encoding="utf-8") as file:
        for line in lines:
            file.write(json.dumps(line, allow_nan=False) + "\n")  # ASCII: no other line break in it
