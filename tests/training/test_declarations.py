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


@pytest.mark.parametrize("earlier_version", [False, True])
def test_the_first_attempt_decides_what_stood_when_a_run_began(train, declare, tmp_path, earlier_version):
    (tmp_path / "disk").mkdir()
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "runs").symlink_to(tmp_path / "disk")  # a large disk for runs
    first = declare("accuracy_strict")
    with pytest.raises(KeyboardInterrupt):
        train("study/runs/arm", training=SAVING, callbacks=[StopAt(3)])
    work = tmp_path / "study" / "runs" / "arm" / "seed0" / ".work"
    assert [*standing_at_begin(work.parent)["primary"]] == [first]
    if earlier_version:
        begun = json.loads((work / "attempts.json").read_text())
        del begun[0]["declarations"]
        write_json(begun, work / "attempts.json")
    second = declare("format")
    run = train("study/runs/arm", training=SAVING)
    assert attempts(run) == [(0, -1, "killed"), (2, 4, "done")]
    standing = standing_at_begin(run)
    assert standing is None if earlier_version else [*standing["primary"]] == [first]
    last = json.loads((run / "run.json").read_text())["attempts"][1]["declarations"]
    assert last == {"primary": {second: {"declared": "2026-01-31T12:00:00Z", "runs_then": 0, "in_runs": True}}}


def test_a_run_without_a_study_declares_nothing(trained):
    assert standing_at_begin(trained()) is None
