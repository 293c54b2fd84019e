"""lm-evaluation-harness: what it wrote with its dummy model, and variants of its lines."""

import json
import shutil
from pathlib import Path

import pytest

from reward_ablation.imported.readers.lm_eval import read_answers
from reward_ablation.imported.rows import checked
from reward_ablation.system.errors import StudyError

FILES = Path(__file__).parents[1] / "files" / "lm_eval"
SUMS = next(FILES.glob("samples_sums_*.jsonl"))
SAMPLED = {"temperature": 0.6}


def test_generated_answers():
    """The dummy model answers "lol", which is right once."""
    answers = read_answers(FILES, {"task": "sums", "filter": "strict"})
    table = checked("answers", answers.table, "lm_eval").to_pydict()
    assert table["problem_id"] == ["0", "1", "2"]
    assert table["question"] == ["What is 2 + 3?", "Which word is funny?", "How many legs has a cat?"]
    assert table["gold"] == ["5", "lol", "4"]
    assert table["completion"] == ["lol"] * 3
    assert table["correct"] == [False, True, False]
    assert table["mode"] == ["greedy"] * 3
    assert table["sample"] == [0] * 3
    assert answers.missing == answers.metrics == []


def test_answers_by_likelihood():
    answers = read_answers(FILES, {"task": "choice", "metric": "acc_norm"})
    assert answers.table["correct"].to_pylist() == [False, True, False]
    assert answers.table["acc"].to_pylist() == [0.0] * 3
    assert answers.table["completion"].null_count == 3
    assert answers.missing == ["Answers that are chosen by their likelihood have no completions."]


def test_tasks_of_a_pattern_are_subjects(tmp_path):
    for number in (1, 2):
        shutil.copy(SUMS, tmp_path / SUMS.name.replace("sums", f"mmlu_{number}"))
    table = read_answers(tmp_path, {"task": "mmlu_*", "filter": "lower"}).table.to_pydict()
    assert table["subject"] == ["mmlu_1"] * 3 + ["mmlu_2"] * 3
    assert table["problem_id"] == [f"mmlu_{number}/{at}" for number in (1, 2) for at in range(3)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "2 tasks; write the option task with one of: choice, sums"),
        ({"task": "gsm8k"}, "no task 'gsm8k'"),
        ({"task": "sums"}, "2 filters; write the option filter with one of: lower, strict"),
        ({"task": "choice"}, "2 metrics; write the option metric with one of: acc, acc_norm"),
        ({"tasks": "sums"}, "evaluation: .*unknown key 'tasks'; did you mean task"),
    ],
)
def test_options_refused(options, message):
    with pytest.raises(StudyError, match=message):
        read_answers(FILES, options)


def test_two_dates_of_a_task(tmp_path):
    for hour in ("10", "11"):
        shutil.copy(SUMS, tmp_path / f"samples_sums_2026-11-28T{hour}-00-00.jsonl")
    with pytest.raises(StudyError, match=r"2 files; name one of them: .*T10.*, .*T11"):
        read_answers(tmp_path, {})


@pytest.mark.parametrize(
    ("fields", "row", "sentence"),
    [
        ({"doc": "a text"}, {"question": "Question: What is 2 + 3?\nAnswer:"}, None),  # the prompt, if nothing barer
        ({"doc": {"problem": "P", "level": "Level 5", "subject": 3}}, {"level": "Level 5", "subject": "3"}, None),
        ({"resps": [["a", "b"]]}, {"completion": "a"}, "one score for all repeats"),
        ({"exact_match": 0.5}, {"correct": False}, "exact_match has values beside 0 and 1"),
        ({"exact_match": 100.0}, {"correct": False}, "only where it is 1, and here none is, as it goes up to 100."),
        ({"metrics": ["exact_match", "all"], "all": [1, 0]}, {"correct": False}, None),  # a list is no number
        # a server gets the conversation as JSON in a list of one
        ({"doc": {}, "arguments": {"gen_args_0": {"arg_0": ["[]"], "arg_1": SAMPLED}}}, {"question": "[]"}, None),
        ({"arguments": {"gen_args_0": {"arg_0": "p", "arg_1": SAMPLED}}}, {"mode": "sampled"}, None),
        ({"arguments": {"gen_args_0": {"arg_0": "p", "arg_1": {}}}}, {"mode": "greedy"}, "how answers were drawn"),
    ],
)
def test_lines_of_other_tasks(fields, row, sentence, tmp_path):
    line = json.loads(SUMS.read_text().splitlines()[0])
    (tmp_path / "samples_x.jsonl").write_text(json.dumps({**line, **fields}))
    answers = read_answers(tmp_path, {})
    found = answers.table.to_pylist()[0]
    assert {name: found[name] for name in row} == row
    assert [sentence in missing for missing in answers.missing] == [True] * (sentence is not None)
