"""Kept answers: no process sends a request twice, however an earlier process ended."""

import json
import subprocess
import sys

import pytest

from endpoint import Reply, endpoint, says
from reward_ablation.rewards import endpoint as asking
from reward_ablation.rewards.components.judge import judge
from reward_ablation.rewards.request_records import KeptAnswers, counted
from reward_ablation.rewards.request_records import asking as asking_in
from reward_ablation.system.errors import PassingError, StudyError

A, B = "a" * 32, "b" * 32


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(asking, "FIRST_PAUSE", 0.001)


@pytest.fixture
def ask(tmp_path):
    """Judges with answers kept in a folder, as if in a new process each time."""
    (tmp_path / "judge.txt").write_text("{question} {completion}")

    def ask(url, completions, **parameters):
        asking._kept.cache_clear()
        parameters = {"model": "m", "template": str(tmp_path / "judge.txt"), "retries": 0, "seconds": 5.0} | parameters
        with asking_in(tmp_path / "answers", tmp_path / "counts"):
            return judge(completions, endpoint=url, question=["?"] * len(completions), **parameters)

    return ask


def test_what_was_answered_is_not_asked_again_wherever_the_endpoint_is(ask, tmp_path):
    (tmp_path / "moved.txt").write_text("{question} {completion}")
    with endpoint(lambda request: says({"score": 0.5})) as server:
        assert ask(server.url, ["a", "b"]) == [0.5, 0.5]
    again = {"template": str(tmp_path / "moved.txt"), "concurrency": 1, "retries": 3, "seconds": 9.0}
    with endpoint(lambda request: says({"score": 0.75})) as server:
        assert ask(server.url, ["a", "c", "b"], **again, api_key="key") == [0.5, 0.75, 0.5]
        assert len(server.requests) == 1


def test_what_decides_a_score_decides_whether_it_is_asked_again(ask, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.txt").write_text("{question}{{}} {completion}")
    others = [{"model": "m2"}, {"low": -1.0}, {"extra_body": {"seed": 1}}, {"template": "other.txt"}]
    with endpoint(lambda request: says({"score": 0.5})) as server:
        for number, parameters in enumerate([{}, *others], start=1):
            ask(server.url, ["a"], **parameters)
            assert len(server.requests) == number


def test_without_a_folder_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "judge.txt").write_text("{completion}")
    with endpoint(lambda request: says({"score": request.number})) as server:
        assert [judge(["a"], model="m", template="judge.txt", endpoint=server.url) for _ in range(2)] == [[0.0], [1.0]]
    assert len([*tmp_path.iterdir()]) == 1


WRITER = """
import os, sys
from pathlib import Path
from reward_ablation.rewards.request_records import KeptAnswers
kept = KeptAnswers(Path(sys.argv[1]))
for number in range(int(sys.argv[2]), int(sys.argv[3])):
    kept.put(f"{number:032x}", number / 10)
os.kill(os.getpid(), 9)
"""


def test_answers_of_a_killed_process_and_of_others_beside_it_are_read(tmp_path):
    kept = KeptAnswers(tmp_path)
    for first, last in (("0", "300"), ("200", "500")):
        subprocess.run([sys.executable, "-c", WRITER, str(tmp_path), first, last])
    kept.refresh()
    assert [kept.get(f"{number:032x}") for number in (0, 250, 499, 500)] == [0.0, 25.0, 49.9, None]
    assert len(list(tmp_path.iterdir())) == 2


def test_a_line_without_an_end_or_with_damage_is_not_read(tmp_path):
    lines = [
        json.dumps({"request": A, "score": 0.5}),
        "\x00\x00",
        '{"request": "' + B + '", "score": NaN}',
        "[" * 100_000,
        json.dumps({"request": A, "score": 0.75}),  # of two scores of one request the first stays
    ]
    file = tmp_path / "x.jsonl"
    file.write_text("\n".join(lines) + "\n" + json.dumps({"request": B, "score": 0.25}))
    kept = KeptAnswers(tmp_path)
    kept.refresh()
    assert (kept.get(A), kept.get(B)) == (0.5, None)
    with file.open("a") as written:
        written.write("\n")
    kept.refresh()
    assert (kept.get(A), kept.get(B)) == (0.5, 0.25)
    kept.put(A, 0.75)
    assert kept.get(A) == 0.5


def test_what_a_batch_that_ends_in_an_error_has_is_kept_and_counted(ask, tmp_path):
    refusing = endpoint(lambda request: Reply(status=401) if "bad" in request.prompt else says({"score": 1}))
    with refusing as server, pytest.raises(StudyError, match="status 401"):
        ask(server.url, ["good", "bad"], concurrency=1)
    with endpoint(lambda request: Reply(status=500)) as server, pytest.raises(PassingError):
        ask(server.url, ["a", "b"], retries=1)
    with endpoint(lambda request: says({"score": 0})) as server:
        assert ask(server.url, ["good", "bad"]) == [1.0, 0.0]
    with pytest.raises(PassingError, match="none of 1 requests"):  # also beside a kept answer
        ask(server.url, ["good", "new"])
    of_model = counted(tmp_path / "counts")["m"]
    assert (of_model["requests"], of_model["unanswered"], of_model["kept"]) == (2 + 4 + 1 + 1, 3, 2)


def test_requests_and_tokens_are_counted_by_model_and_half_a_file_is_passed_over(ask, tmp_path):
    replies = {0: Reply(status=500), 1: says("?"), 2: says({"score": 1}), 3: says({"score": 1})}
    with endpoint(lambda request: replies[request.number]) as server:
        ask(server.url, ["a", "b"], retries=2, concurrency=1)
        ask(server.url, ["a", "b", "a"])
    counts = {"requests": 4, "kept": 2, "retries": 2, "unanswered": 0, "prompt_tokens": 30, "completion_tokens": 15}
    folder = tmp_path / "counts"
    assert counted(folder) == {"m": counts}
    (folder / "other.json").write_text('{"m": {"requests": 5}, "n": {"requests": 1}}')  # of another process
    (folder / "half.json").write_text('{"m": {"requ')
    assert {model: numbers["requests"] for model, numbers in counted(folder).items()} == {"m": 9, "n": 1}
    assert counted(tmp_path / "gone") == {}
