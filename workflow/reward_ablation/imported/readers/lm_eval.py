"""lm-evaluation-harness: `samples_TASK_DATE.jsonl` of `--log_samples`, a line for each question and filter.

`reward-ablation import` calls `read_answers` for answers in the format `lm_eval`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reward_ablation.config.base import Line
from reward_ablation.config.config_errors import validate_spec
from reward_ablation.imported.files import text
from reward_ablation.imported.readers import common
from reward_ablation.imported.readers.common import Record, Row
from reward_ablation.imported.rows import Answers

#: Fields of a task's document that have the bare question, without the prompt's examples; the first that is there.
QUESTIONS = ("question", "problem", "query", "prompt", "input")


class Options(common.TaskOptions):
    """Options of answers. `filter` is the filter whose metrics count, where a task has several."""

    filter: Line | None = None


def read_answers(path: Path, options: Row) -> Answers:
    """Answers to the questions of a task, or of several."""
    chosen = validate_spec(Options, options, "evaluation")
    files = common.files_of_tasks(path, "samples", "jsonl", chosen.task)
    missing: list[str] = []
    by_filter: dict[str, list[Row]] = {}
    for task, file in files.items():
        for line in common.records(file):
            row = _row(line, chosen, missing)
            by_filter.setdefault(line.text("filter"), []).append(common.of_task(row, task, files))
    rows = by_filter[common.the_one(path, "filter", by_filter, chosen.filter)]
    return common.answers(path, rows, chosen.metric, missing)


def _row(line: Record, options: Options, missing: list[str]) -> Row:
    """The answer in a line. Its question is the document's own text, or else the whole prompt that was sent."""
    doc, request = Record(line["doc"] if isinstance(line["doc"], dict) else {}, line.where), line.inner("arguments")
    request = request.inner("gen_args_0")
    bare = next((doc.text(name) for name in QUESTIONS if isinstance(doc.value.get(name), str)), None)
    asked = request["arg_0"] if bare is None else None  # a list of one text where a server got a conversation
    repeats = _first(line["resps"])
    completion = _first(repeats)
    if not isinstance(completion, str):
        missing.append("Answers that are chosen by their likelihood have no completions.")
    elif len(repeats) > 1:
        missing.append("lm_eval keeps one score for all repeats of a question; the first completion is here.")
    named = {name: line[name] for name in map(str, line.list_of("metrics"))}
    return {
        "problem_id": str(line.whole("doc_id")),
        "question": bare if bare is not None else text(_first(asked) or asked, f"{request.where}: arg_0"),
        "gold": line.text("target"),
        "level": doc.label("level"),
        "subject": doc.label("subject"),
        "mode": common.mode_of(_mode(request.value.get("arg_1")), options, missing),
        "sample": 0,
        "completion": completion if isinstance(completion, str) else None,
        "scores": Record(named, line.where).scores(),
    }


def _mode(setting: Any) -> str | None:
    """How a request was answered, by its settings; a text is a continuation whose likelihood was taken."""
    if isinstance(setting, dict) and ("do_sample" in setting or "temperature" in setting):
        return "sampled" if setting.get("do_sample", setting.get("temperature")) else "greedy"
    return "greedy" if isinstance(setting, str) else None


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else None
