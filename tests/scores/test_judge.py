"""A judge as a metric: stored answers are judged, and no answer is judged twice."""

import json
import threading
import time

import pandas as pd
import pytest

from endpoint import Reply, endpoint, says
from reward_ablation.rewards.request_records import count
from reward_ablation.scores import __main__ as command
from reward_ablation.scores.requests import record_of, recording
from reward_ablation.scores.score import score_answers
from reward_ablation.system.errors import StudyError


@pytest.fixture
def judge(tmp_path):
    """A metric that asks a server, and how the command is told where answers are kept."""
    (tmp_path / "judge.txt").write_text("{question} {completion}")
    options = ("--judge", str(tmp_path / "judge"))

    def judge(server, **parameters):
        own = {"model": "m", "template": str(tmp_path / "judge.txt"), "endpoint": server.url, **parameters}
        return {"helpful": ("judge", own)}, *options

    return judge


def requests_of(path):
    return json.loads(record_of(path).read_text())["requests"]["m"]


def test_a_judge_scores_stored_answers_and_keeps_what_it_said(stored, judge):
    assert stored.score({"flat": ("constant", {"value": 2.0})}, output="flat.parquet")["flat"].tolist() == [2.0] * 4
    assert list(json.loads(record_of(stored.folder / "flat.parquet").read_text())) == ["code"]  # it asks nobody
    with endpoint(lambda request: says({"score": int(request.prompt[-1]) / 10})) as server:
        for output in ("first.parquet", "again.parquet", "first.parquet"):
            assert stored.score(*judge(server), output=output)["helpful"].tolist() == [0.0, 0.1, 0.2, 0.3]
        assert len(server.requests) == 4
    first, again = (requests_of(stored.folder / name) for name in ("first.parquet", "again.parquet"))
    # Scores that are made again, as where the code of a metric has changed, have the requests of all scorings.
    assert (first["requests"], first["kept"]) == (4, 4)
    assert first["prompt_tokens"] > 0
    assert (again["requests"], again["kept"], again["prompt_tokens"]) == (0, 4, 0)
    assert not list(stored.folder.glob(".*.tmp"))


def test_requests_of_a_scoring_that_failed_are_counted_by_the_next(stored, judge):
    def refuses(request):
        return Reply(b"no", status=401) if request.prompt[-1] == "3" else says({"score": 0.5})

    with endpoint(refuses) as first, pytest.raises(StudyError, match="answers with status 401"):
        stored.score(*judge(first, concurrency=1))
    assert not record_of(stored.folder / "scores.parquet").exists()
    with endpoint(lambda request: says({"score": 0.5})) as second:
        stored.score(*judge(second))
    counts = requests_of(stored.folder / "scores.parquet")
    assert counts["requests"] == len(first.requests) + len(second.requests) == 5


def test_two_scorings_of_one_file_count_each_request_once(tmp_path):
    """The job of a killed Snakemake may still be at work on its node."""
    scores, begun = tmp_path / "scores.parquet", threading.Event()

    def score(requests):
        with recording(scores, "code") as folder:
            count(folder, "judge", {"requests": requests})
            begun.set()
            time.sleep(1)
            count(folder, "judge", {"requests": requests})

    first, second = (threading.Thread(target=score, args=(requests,)) for requests in (10, 7))
    first.start()
    begun.wait(timeout=10)
    second.start()
    for thread in (first, second):
        thread.join(timeout=30)
    assert json.loads(record_of(scores).read_text())["requests"]["judge"]["requests"] == 34


def test_scores_of_answers_that_were_replaced_meanwhile_are_not_written(stored, monkeypatch):
    def replaced(*arguments):
        stored.completions.reverse()
        pd.DataFrame({"completion": stored.completions}).to_parquet(stored.folder / "answers.parquet")
        return score_answers(*arguments)

    monkeypatch.setattr(command, "score_answers", replaced)
    with pytest.raises(StudyError, match=r"answers.parquet: were made again while they were scored; run the workflow"):
        stored.score({"flat": ("constant", {})})
    assert not (stored.folder / "scores.parquet").exists()
