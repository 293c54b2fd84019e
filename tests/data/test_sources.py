"""Each source's rows in the columns of a problem."""

import json
from decimal import Decimal

import pytest

from reward_ablation.config.sections.data import FileData, HubData
from reward_ablation.data.sources import gsm8k, level, load, math, user_file
from reward_ablation.system.errors import StudyError


@pytest.mark.parametrize(
    ("answer", "gold"), [("She has <<2+2=4>>4.\n#### 4", " 4"), ("A loss.\n#### -3", " -3"), ("Not worked out.", None)]
)
def test_gsm8k_gold(answer, gold):
    [row] = gsm8k([{"question": "How many?", "answer": answer}], "train")
    assert row["answer"] == gold
    assert row["solution"] == answer  # as the source has it, calculator notes and all
    assert row["id"] == "gsm8k/train/0"


@pytest.mark.parametrize(
    ("row", "gold", "number", "subject"),
    [
        # MATH-500 and the copies made from it
        ({"answer": r"\frac{1}{2}", "level": 5, "subject": "Algebra"}, r"\frac{1}{2}", 5, "Algebra"),
        # the mirror of the whole set has no answer column, and says type
        ({"level": "Level 5", "type": "Algebra"}, "7", 5, "Algebra"),
        ({"level": "Level ?", "type": "Geometry"}, "7", None, "Geometry"),
        # an empty gold is a gap in the data, not a reason to look into the solution
        ({"answer": "", "level": 1, "subject": "Algebra"}, "", 1, "Algebra"),
    ],
)
def test_math(row, gold, number, subject):
    [problem] = math([{"problem": "x?", "solution": r"\boxed{6}, so \boxed{7}"} | row], "math", "train")
    assert (problem["answer"], problem["level"], problem["subject"]) == (gold, number, subject)
    assert problem["question"] == "x?"


@pytest.mark.parametrize(
    ("value", "number"),
    [
        *((3, 3), ("3", 3), ("Level 3", 3), (3.0, 3), (Decimal("3.00"), 3)),
        *((None, None), (float("nan"), None), ("Level ?", None), ("NA", None)),
    ],
)
def test_level(value, number):
    assert level(value, "here") == number


def test_levels_that_are_no_number_are_refused():
    for value in ("hard", 2.5, [1], "a long solution " * 100):
        with pytest.raises(StudyError, match=r"here: level .{,62} is no whole number"):
            level(value, "here")


def write(path, rows):
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return str(path)


def test_user_file_with_its_own_names(tmp_path):
    path = write(tmp_path / "mine.jsonl", [{"q": "x?", "gold": 7, "level": 2, "note": "-"}])
    [row] = user_file(FileData(source="file", path=path, columns={"question": "q", "answer": "gold"}))
    assert (row["id"], row["question"], row["answer"], row["level"]) == ("file/mine/0", "x?", 7, 2)
    assert row["solution"] is None
    path = write(tmp_path / "mine.jsonl", [{"id": "p1", "question": "x?", "answer": "7"}])
    assert user_file(FileData(source="file", path=path))[0]["id"] == "p1"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "no column 'question'; name its column with columns: {question: ...}; columns here: q, answer"),
        ({"question": "Q"}, "columns.question: no column 'Q'; columns here: q, answer"),
        ({"question": "q", "level": "hardness"}, "columns.level: no column 'hardness'; columns here: q, answer"),
    ],
)
def test_columns_that_are_not_there(tmp_path, columns, message):
    path = write(tmp_path / "mine.jsonl", [{"q": "x?", "answer": "7"}])
    with pytest.raises(StudyError) as caught:
        user_file(FileData(source="file", path=path, columns=columns))
    assert message in str(caught.value)


def test_a_copy_must_be_complete_and_limit_keeps_the_first_rows(tmp_path):
    rows = [{"question": f"{index}?", "answer": f"#### {index}"} for index in range(1319)]
    path = write(tmp_path / "gsm8k.jsonl", rows)
    problems = load(HubData(source="gsm8k", split="test", path=path, limit=3))
    assert [row["id"] for row in problems] == ["gsm8k/test/0", "gsm8k/test/1", "gsm8k/test/2"]
    path = write(tmp_path / "short.jsonl", rows[1:])
    with pytest.raises(StudyError, match="1318 rows, but gsm8k test has 1319"):
        load(HubData(source="gsm8k", split="test", path=path))
    path = write(tmp_path / "wrong.jsonl", [{"problem": "x?", "solution": "y"}] * 1319)
    with pytest.raises(StudyError, match="gsm8k row 0: no column 'answer'; columns here: problem, solution"):
        load(HubData(source="gsm8k", split="test", path=path))
