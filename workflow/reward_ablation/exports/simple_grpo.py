"""The files of `exports: [simple_grpo]`: rollouts, and greedy answers before and after training, as JSON Lines.

The rule `export_simple_grpo` makes them for each run, by the command of the exports.

simple_grpo counts steps from 0, and this project counts from 1: step N in these files is step N + 1 of the run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from reward_ablation.analysis.reading import read_parquet
from reward_ablation.exports.runs import read_finished, rollouts_by_step
from reward_ablation.rewards import grade_batch
from reward_ablation.sampling.prompts import render_prompt, template_variables
from reward_ablation.sampling.tokenizer import load_tokenizer
from reward_ablation.spec.run import ArmSpec
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import atomic_path, sha256, write_json

#: Texts by problem id, such as prompts or right answers ("golds").
Texts = Mapping[str, str]


def export(
    run: Path,
    model: Path,
    problems: Path,
    answers: Sequence[tuple[str, Path, Path, Path]],
    answer_format: str,
    output: Path,
) -> None:
    """Write the rollouts, the answers before and after training, and at last their summary, into the folder `output`.

    `answers` has the name of each data set in the config, its questions, and the answers of the base model and the run.
    Rollouts are graded by `answer_format`, whatever the run was trained on. Refused for other `problems`.
    """
    record = read_finished(run)
    spec = ArmSpec.read(record["spec"], f"{run}/run.json: spec")
    prompts, golds = prompts_and_golds(problems, spec, model)
    if record["inputs"].get("problems") != sha256(problems):
        raise StudyError(f"{run}: trained on another version of its problems; run the workflow again")
    write_lines(rollout_lines(run, prompts, golds, answer_format), output / "rollouts.jsonl")
    summary: dict[str, dict[str, dict[str, float]]] = {"before": {}, "after": {}}
    for dataset, questions, *files in answers:
        prompts, golds = prompts_and_golds(questions, spec, model)
        for moment, file in zip(summary, files, strict=True):
            lines, summary[moment][dataset] = answer_lines(file, prompts, golds)
            write_lines(lines, output / f"eval_{moment}_{dataset}.jsonl")
    write_json(summary, output / "evaluation.json")


def prompts_and_golds(path: Path, spec: ArmSpec, model: Path) -> tuple[Texts, Texts]:
    """Read the prompts and golds of a prepared data set, by problem id."""
    problems = read_parquet(path, ["id", "question", "answer"])
    questions = dict(zip(problems["id"], problems["question"], strict=True))
    return prompt_texts(questions, spec, model), dict(zip(problems["id"], problems["answer"], strict=True))


def prompt_texts(questions: Texts, spec: ArmSpec, model: Path) -> Texts:
    """Prompt of each problem as the model got it, with the chat template of the `model`'s tokenizer."""
    rendered: dict[str, Any] = {problem: render_prompt(text, spec.prompt) for problem, text in questions.items()}
    if not spec.prompt.chat:
        return rendered
    tokenizer = load_tokenizer(model)
    variables = template_variables(spec.prompt.date, spec.training.get("chat_template_kwargs"))
    return {
        problem: str(tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False, **variables))
        for problem, chat in rendered.items()
    }


def rollout_lines(run: Path, prompts: Texts, golds: Texts, answer_format: str) -> Iterator[dict]:
    """Lines of `rollouts.jsonl`, in the order of `rollouts.parquet`."""
    for step, rows in rollouts_by_step(run, ["problem_id", "completion", "total"]):
        gold_of_row = [golds[row["problem_id"]] for row in rows]
        grades = grade_batch([row["completion"] for row in rows], gold_of_row, answer_format)
        for row, gold, grade in zip(rows, gold_of_row, grades, strict=True):
            prompt = prompts[row["problem_id"]]
            yield {
                "step": step - 1,
                "prompt_id": hashlib.sha1(prompt.encode(), usedforsecurity=False).hexdigest()[:12],
                "prompt": prompt,
                "completion": row["completion"],
                "prediction": grade.answer,
                "ground_truth": gold,
                "reward": row["total"],
                "correct": grade.status == "correct",
            }


def answer_lines(answers: Path, prompts: Texts, golds: Texts) -> tuple[list[dict], dict[str, float]]:
    """Lines of greedy answers with strict grades, and their summary; new tokens count the end and no padding."""
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


def write_lines(lines: Iterable[Mapping[str, Any]], output: Path) -> None:
    """Write JSON Lines to a temporary file, and move it into place."""
    with atomic_path(output) as temporary, temporary.open("w", encoding="utf-8") as file:
        for line in lines:
            file.write(json.dumps(line, allow_nan=False) + "\n")  # ASCII, so a line contains no other line break
