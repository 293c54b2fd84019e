"""A run whose components use further columns gets lists, objects and numbers as they are in the user's file."""

import json

import pandas as pd
import pytest

from reward_ablation.data.problems import PrepareSpec, prepare
from reward_ablation.study.reward_files import file_digest

pytestmark = pytest.mark.slow

ROWS = {
    f"How many are {number} eggs?": {
        "tests": [f"assert f() == {number}"] * (number % 3),
        "about": {"size": {"eggs": number}} if number % 2 else {"other": [None, number]},
        "points": number / 4,
        "instructions": [{"id": "punctuation:no_comma"}, {"id": "startend:quotation", "kwargs": {}}],
    }
    for number in range(1, 9)
}

MINE = """
import json

def changes(completions, tests, about, **columns):
    for test, what in zip(tests, about):
        test.append("changed")
        what["changed"] = True
    return [float(len(test)) for test in tests]

def writes(completions, question, *, column: str = "tests", file: str, **columns):
    names = (column, "about", "points", "answer")
    with open(file, "a") as lines:
        for row in zip(question, *(columns[name] for name in names)):
            lines.write(json.dumps(row) + "\\n")
    return [float(len(value)) for value in columns[column]]
"""


def test_components_get_lists_objects_and_numbers(train, tmp_path):
    data, reward, seen = tmp_path / "mine.jsonl", tmp_path / "mine.py", tmp_path / "seen.jsonl"
    data.write_text("\n".join(json.dumps({"question": question, **row}) for question, row in ROWS.items()))
    columns = {name: name for name in ("tests", "about", "points", "instructions")}
    source = {"source": "file", "path": str(data), "columns": columns}
    prepare(PrepareSpec.model_validate({"source": source, "golds": False}), "train", tmp_path / "train.parquet")
    reward.write_text(MINE)

    def mine(function, **parameters):
        return {"function": f"{reward}:{function}", "parameters": parameters, "code": file_digest(reward, tmp_path)}

    run = train(
        "run",
        problems=tmp_path / "train.parquet",
        components={
            "correctness": {"function": "instructions", "parameters": {"partial": True}},
            "format": mine("changes"),
            "length": mine("writes", file=str(seen)),
        },
        weights={"correctness": 1, "format": 0.5, "length": 0},
        training={"max_steps": 2},
    )
    lines = [json.loads(line) for line in seen.read_text().splitlines()]
    assert len(lines) == 16
    for question, *values in lines:  # not as the other component has changed its own
        row = ROWS[question]
        assert values == [row["tests"], row["about"], row["points"], None]
    rollouts = pd.read_parquet(run / "rollouts.parquet")
    number = rollouts.problem_id.str.removeprefix("file/mine/").astype(int) + 1
    assert rollouts.score_format.tolist() == [n % 3 + 1 for n in number]
    assert rollouts.score_length.tolist() == [n % 3 for n in number]
    assert rollouts.score_correctness.tolist() == [
        ((1 if "," not in text else 0) + (len(text.strip()) > 1 and text.strip()[0] == text.strip()[-1] == '"')) / 2
        for text in rollouts.completion
    ]
