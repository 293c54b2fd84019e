"""Answers belong to the training of their run that its record names, or the record's hidden copy."""

import pytest

from reward_ablation.study.answers_record import Making, are_current
from reward_ablation.study.run_folder import HIDDEN_RECORD, RECORD
from reward_ablation.system.files import sha256, write_json


@pytest.fixture
def answers(tmp_path):
    """Answers of a run, which name its record; the record has a hidden copy."""
    for name in (RECORD, HIDDEN_RECORD):
        write_json({"form": 2}, tmp_path / "run" / name)
    answers = tmp_path / "test.parquet"
    answers.write_text("answers")
    write_json({"inputs": {"run": sha256(tmp_path / "run" / RECORD)}}, answers.with_suffix(".json"))
    return answers


@pytest.mark.parametrize(
    ("changed", "same"), [((RECORD,), True), ((HIDDEN_RECORD,), True), ((RECORD, HIDDEN_RECORD), False)]
)
def test_a_byte_more_in_one_of_the_two_is_no_other_training(answers, changed, same):
    run = answers.parent / "run"
    for name in changed:
        (run / name).write_text(f"{(run / name).read_text()}\n")
    assert are_current(answers, Making({"run": sha256(run / RECORD)}, run / RECORD)) is same
