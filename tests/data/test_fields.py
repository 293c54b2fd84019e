"""Fields inside columns, in all formats, and the lists of messages of TRL and verl."""

import json
import re

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reward_ablation.config.sections.data import FileData
from reward_ablation.data.sources import user_file
from reward_ablation.system.errors import StudyError


def message(role: str, content: str = "x?") -> dict[str, str]:
    return {"role": role, "content": content}


VERL = [
    {
        "data_source": "openai/gsm8k",
        "prompt": [message("user", f"{index}?")],
        "reward_model": {"ground_truth": str(index), "style": "rule"},
        "extra_info": {"index": index, "tests": [{"code": "f(1)"}]},
    }
    for index in (3, 4)
]
COLUMNS = {
    "question": "prompt.0.content",
    "answer": "reward_model.ground_truth",
    "level": "extra_info.index",
    "tests": "extra_info.tests",
    "first": "extra_info.tests.0.code",
}


def write(path, rows):
    if path.suffix == ".jsonl":
        path.write_text("\n".join(map(json.dumps, rows)))
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        cells = [{key: v if isinstance(v, str) else json.dumps(v) for key, v in row.items()} for row in rows]
        pd.DataFrame(cells).to_csv(path, index=False)
    return path


def read(path, **columns):
    return user_file(FileData(source="file", path=str(path), columns=columns))


@pytest.mark.parametrize("ending", [".jsonl", ".parquet", ".csv"])
def test_the_layout_of_verl(tmp_path, ending):
    rows = read(write(tmp_path / f"mine{ending}", VERL), **COLUMNS)
    assert [tuple(row[name] for name in COLUMNS) for row in rows] == [
        (f"{index}?", str(index), index, [{"code": "f(1)"}], "f(1)") for index in (3, 4)
    ]


def test_a_column_with_this_very_name_goes_first(tmp_path):
    rows = [{"question": "x?", "gold.text": "1", "gold": {"text": "2"}}, {"question": "y?", "gold": {"text": "3"}}]
    path = write(tmp_path / "mine.jsonl", rows)
    assert [row["answer"] for row in read(path, answer="gold.text")] == ["1", None]


def test_a_row_without_the_field_has_no_value(tmp_path):
    golds = [{"text": "1"}, {"other": "2"}, {}, None, float("nan"), "", '{"text": 4}', {"text": None}]
    rows = [{"question": "x?", "gold": gold} for gold in golds] + [{"question": "x?"}]
    answers = [row["answer"] for row in read(write(tmp_path / "mine.jsonl", rows), answer="gold.text")]
    assert answers == ["1", None, None, None, None, None, 4, None, None]


@pytest.mark.parametrize(
    ("gold", "name", "text"),
    [
        ({"style": "rule"}, "gold.text", "'gold' has no field 'text', which 'gold.text' asks for; fields here: style"),
        ([1], "gold.1", "'gold' has no field '1', which 'gold.1' asks for; a list has positions, from 0"),
        ({"a": "1"}, "gold.a.b", "mine.jsonl: columns.answer row 0: 'gold.a' is of type int and has no fields"),
        ("{'a': 1}", "gold.a", "row 0: 'gold' is a text and not JSON, so that it has no fields"),
        ('{"a": 1, "a": 2}', "gold.a", "row 0: 'gold': line 1: key 'a' occurs twice"),
    ],
)
def test_names_that_lead_nowhere(tmp_path, gold, name, text):
    path = write(tmp_path / "mine.jsonl", [{"question": "x?", "gold": gold}])
    with pytest.raises(StudyError, match=rf"^.*{re.escape(text)}.*\Z"):
        read(path, answer=name)


USER, SYSTEM, ASSISTANT = message("user"), message("system"), message("assistant", "1")
SHAREGPT = [{"from": name, "value": "x?"} for name in ("human", "gpt", "human")]
IN_PARTS = {"role": "user", "content": [{"type": "text", "text": "x?"}]}


@pytest.mark.parametrize("ending", [".jsonl", ".csv"])
@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ([USER], "user); name its text with columns: {question: prompt.0.content}"),
        ([SYSTEM, USER], "{question: prompt.1.content}, and give the system message as prompt.system"),
        ([USER, ASSISTANT, USER], "user, assistant, user), and a question is one message of the user"),
        (SHAREGPT[:1], "user); name its text with columns: {question: prompt.0.value}"),
    ],
)
def test_a_list_of_messages_as_question(tmp_path, ending, messages, text):
    path = write(tmp_path / f"mine{ending}", [{"prompt": messages, "answer": "1"}])
    with pytest.raises(StudyError, match=rf"^{path} row 0: question is a list of messages \(.*{re.escape(text)}"):
        read(path, question="prompt")


def test_messages_and_objects_as_other_texts(tmp_path):
    path = write(tmp_path / "mine.csv", [{"prompt": str([USER]), "answer": "1"}])  # as pandas writes them
    with pytest.raises(StudyError, match="question is a list of messages as Python writes it, not as JSON; save"):
        read(path, question="prompt")
    path = write(tmp_path / "mine.jsonl", [{"question": "x?", "completion": [ASSISTANT], "gold": {"text": "1"}}])
    with pytest.raises(StudyError, match=r"name a message's text, as .* \{solution: completion.-1.content"):
        read(path, answer="gold.text", solution="completion")
    with pytest.raises(StudyError, match=r"answer is an object; .*columns: \{answer: gold.field\}; fields here: text"):
        read(path, answer="gold")
    [row] = read(path, answer="gold.text", solution="completion.-1.content")
    assert row["solution"] == "1"


@pytest.mark.parametrize(
    ("name", "messages", "taken"),
    [
        ("prompt.-1.content", [SYSTEM, USER], True),
        ("prompt.0.content", [USER, ASSISTANT], True),
        ("prompt.0.content", [SYSTEM, USER], False),
        ("prompt.0.content", [USER, ASSISTANT, USER], False),  # the answer is that to the last question
        ("prompt.0.content.0.text", [IN_PARTS], True),
        ("prompt.2.content.0.text", [IN_PARTS, ASSISTANT, IN_PARTS], False),
        ("prompt.2.value", SHAREGPT, False),
    ],
)
def test_a_question_stands_alone(tmp_path, capsys, name, messages, taken):
    rows = [{"prompt": messages, "answer": "1"}]
    path = write(tmp_path / "mine.jsonl", rows)
    if taken:
        assert [row["question"] for row in read(path, question=name)] == ["x?"]
        told = f"{path}: 1 of 1 rows have a system message, which is not used; the study's is prompt.system\n"
        assert capsys.readouterr().err == told * (SYSTEM in messages)
        return
    with pytest.raises(StudyError, match=r"mine.jsonl row 0: 'prompt\..*' is not the question of its messages \("):
        read(path, question=name)
