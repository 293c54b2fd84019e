"""A run records what its study had declared when each of its attempts began."""

import json

import pytest

from reward_ablation.study.primary import Contrast, Question
from reward_ablation.study.standing import standing_at_begin
from reward_ablation.system.files import write_json

from .interrupting import SAVING, StopAt, attempts

pytestmark = pytest.mark.slow


@pytest.fixture
def declare(tmp_path):
    """`declare(metric)` writes `study.json` with a question; its key."""

    def declare(metric: str) -> str:
        question = Question(dataset="d", mode="greedy", metric=metric, contrasts=[Contrast(arm="b", against="a")])
        since = {"declared": "2026-01-31T12:00:00Z", "digest": question.key, "runs_then": 0, "in_runs": True}
        write_json({"primary": {**question.model_dump(), **since}}, tmp_path / "study" / "study.json")
        return question.key

    return declare


def test_the_first_attempt_decides_what_stood_when_a_run_began(train, declare, tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "runs").symlink_to(tmp_path / "disk")  # a large disk for runs
    first = declare("accuracy_strict")
    with pytest.raises(KeyboardInterrupt):
        train("study/runs/arm", training=SAVING, callbacks=[StopAt(3)])
    assert [*standing_at_begin(tmp_path / "study" / "runs" / "arm" / "seed0")["primary"]] == [first]
    second = declare("format")
    run = train("study/runs/arm", training=SAVING)
    assert attempts(run) == [(0, -1, "killed"), (2, 4, "done")]
    assert [*standing_at_begin(run)["primary"]] == [first]
    record = json.loads((run / "run.json").read_text())
    assert record["attempts"][1]["declarations"] == {
        "primary": {second: {"declared": "2026-01-31T12:00:00Z", "runs_then": 0, "in_runs": True, "arms": {}}}
    }
    del record["attempts"][0]["declarations"]  # as of an earlier version
    write_json(record, run / "run.json")
    assert standing_at_begin(run) is None


def test_a_run_without_a_study_declares_nothing(trained):
    assert standing_at_begin(trained()) is None
