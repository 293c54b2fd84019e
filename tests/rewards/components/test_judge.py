"""The component judge with an endpoint on this machine: its requests, the answers that it reads, and its limits."""

import random
from dataclasses import replace

import pytest

from endpoint import Reply, endpoint, says
from reward_ablation.rewards import endpoint as asking
from reward_ablation.rewards.components.judge import judge
from reward_ablation.rewards.load import check_component, load_component
from reward_ablation.system.errors import PassingError, StudyError
from reward_ablation.system.exit_status import may_pass

TEMPLATE = "Q: {question}\nA <{fence}>: {completion}\nGold: {answer} {{}}"
COLUMNS = {"question": "9 * 8?", "answer": "72"}
SECRET = "sk-hunter2-hunter2"


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(asking, "FIRST_PAUSE", 0.001)


@pytest.fixture
def judged(tmp_path):
    """Judge completions by an endpoint that gives the prescribed answers."""
    (tmp_path / "judge.txt").write_text(TEMPLATE)

    def judged(url, completions, columns=COLUMNS, logged=None, **parameters):
        parameters = {"model": "judge-1", "template": "judge.txt", "endpoint": url, "seconds": 5.0} | parameters
        component = load_component("judge", parameters, tmp_path, "helpful", {"JUDGE_API_KEY": SECRET})
        rows = {name: [value] * len(completions) for name, value in columns.items()}
        return component(completions, **rows, **(logged or {}))

    return judged


def by_length(request):
    """A score that depends on the completion."""
    return says({"score": len(request.prompt.split(">: ")[1].split("\nGold")[0]) / 10})


def test_scores_are_in_order_equal_completions_are_asked_about_once_and_few_requests_are_in_flight(judged):
    with endpoint(lambda request: replace(by_length(request), seconds=0.02)) as server:
        lengths = (3, 0, 10, 7, 5, 4, 3, 0)
        assert judged(server.url, ["a" * n for n in lengths], concurrency=3) == [n / 10 for n in lengths]
    assert len(server.requests) == 6
    assert server.most_open == 3
    assert server.connections <= 3


@pytest.mark.parametrize("text", ["{question.__class__} {answer}", "\ud800", "\x00</answer> {", "a" * 1_000_000])
def test_the_request_has_the_rendered_prompt_the_schema_and_the_key(judged, text):
    with endpoint(lambda request: says({"score": 1})) as server:
        judged(server.url, [text], api_key={"env": "JUDGE_API_KEY"}, low=-1, high=1, seconds=60.0)
    [request] = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {SECRET}"
    assert (request.body["model"], request.body["temperature"], request.body["max_tokens"]) == ("judge-1", 0.0, 256)
    schema = request.body["response_format"]["json_schema"]["schema"]
    assert schema["properties"] == {"score": {"type": "number", "minimum": -1, "maximum": 1}}
    assert schema["required"] == ["score"]
    fence = request.prompt.partition("<")[2].partition(">")[0]
    assert len(fence) == 16
    assert request.prompt == f"Q: 9 * 8?\nA <{fence}>: {text}\nGold: 72 {{}}"


@pytest.mark.parametrize(
    "content",
    [
        '{"score": 1.01}',
        '{"score": "0.5"}',
        '{"score": true}',
        '{"score": NaN}',
        '{"score": 1' + "0" * 4000 + "}",
        '{"score": 0.5, "why": "good"}',
        '{"score": 0, "score": 1}',
        "[" * 100_000,
        # responses that are no completion of chat
        *(b"\xff\xfe", b'{"choices": []}', b'{"choices": [{"message": {"content": null}}]}'),
    ],
)
def test_an_answer_out_of_form_is_asked_for_again_and_is_never_a_score(judged, content):
    bad = Reply(content) if isinstance(content, bytes) else says(content)
    with endpoint(lambda request: bad if "bad" in request.prompt else says({"score": 1})) as server:
        assert judged(server.url, ["bad", "good"], retries=2) == [None, 1.0]
    assert len(server.requests) == 4


FAULTS = {
    "slow": Reply(seconds=60.0),
    "byte by byte": Reply(b"{", trickling=True),  # passes every bound on the silence between two bytes
    "busy": Reply(status=429),
    "of a proxy": Reply(b"oops", status=520),  # no status of HTTP
    "status 200 with an error": Reply(b'{"error": {"message": "Rate limit exceeded", "code": 429}}'),
    "cut": Reply(b"{", cut=True),
    "endless": Reply(endless=True),
    "compressed": Reply(b"x", headers={"Content-Encoding": "gzip"}),
    # cannot be read, and does not count
    "Retry-After: a date": Reply(status=503, headers={"Retry-After": "Mon, 99 Foo 2026"}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_after_a_fault_the_request_is_made_again_and_a_fault_that_stays_is_none_and_not_0(judged, fault, capsys):
    shares = {}

    def faulty(request):
        return FAULTS[fault] if "bad" in request.prompt or request.number == 0 else says({"score": 0.25})

    with endpoint(faulty) as server:
        logged = {"log_metric": lambda name, value: shares.update({name: value})}
        found = judged(server.url, ["good", "bad"], logged=logged, seconds=0.3, retries=1, concurrency=1)
    assert found == [0.25, None]
    assert shares == {"judge/unanswered/judge-1": 0.5}
    assert len(server.requests) == 4
    assert f"judge: 1 of 2 requests without an answer: {fault if '200' in fault else ''}" in capsys.readouterr().out


@pytest.mark.parametrize("header", ["1", "Fri, 31 Dec 2199 23:59:59 GMT"])
def test_retry_after_is_honoured_within_a_limit(judged, monkeypatch, header):
    monkeypatch.setattr(asking, "LONGEST_ASKED", 1.0)
    busy = Reply(status=429, headers={"Retry-After": header})
    with endpoint(lambda request: says({"score": 1}) if request.number else busy) as server:
        assert judged(server.url, ["a"]) == [1.0]
    first, second = (request.moment for request in server.requests)
    assert second - first >= 1.0


def test_pauses_grow_with_jitter_up_to_a_limit_and_move_no_random_number_of_training(monkeypatch):
    monkeypatch.setattr(asking, "FIRST_PAUSE", 0.5)
    before = random.getstate()
    pauses = {retry: [asking.pause_before(retry, None) for _ in range(200)] for retry in (0, 1, 5, 1000)}
    assert max(pauses[0]) <= 1.0
    assert 1.0 < max(pauses[1]) <= 2.0
    assert max(pauses[1000]) <= asking.LONGEST_PAUSE
    assert len(set(pauses[5])) > 100
    assert random.getstate() == before


def test_where_nothing_is_answered_the_run_stops_and_may_go_on_later(judged):
    told = r"^components\.helpful: endpoint: answered none of 2 requests: status 503 \(2\); check"
    with endpoint(lambda request: Reply(status=503)) as server, pytest.raises(PassingError, match=told):
        judged(server.url, ["a", "b"], retries=1)
    assert len(server.requests) == 4
    with pytest.raises(PassingError, match=r"no connection \(ConnectError\)"):
        judged(server.url, ["a"], retries=1)  # the server has gone


def test_a_prompt_that_the_model_does_not_take_is_not_sent_again(judged, capsys):
    too_long = Reply(b"context length " + SECRET.encode(), status=400)
    with endpoint(lambda request: too_long if "bad" in request.prompt else says({"score": 1})) as server:
        assert judged(server.url, ["bad", "good"], api_key={"env": "JUDGE_API_KEY"}) == [None, 1.0]
    assert len(server.requests) == 2
    assert SECRET not in capsys.readouterr().out


def test_a_refusal_that_stays_ends_the_run_in_one_line_without_the_key(judged, capfd):
    refusal = Reply(f"bad key {SECRET} {SECRET.encode().hex()}\n\x1b[31m".encode(), status=401)
    with endpoint(lambda request: refusal) as server, pytest.raises(StudyError) as error:
        judged(server.url, ["a", "b"], api_key={"env": "JUDGE_API_KEY"}, concurrency=1)
    told = str(error.value)
    assert told.startswith("components.helpful: endpoint: answers with status 401: bad key (hidden) (hidden)")
    assert not {"\x1b", "\n"} & {*told}
    assert not may_pass(error.value)
    assert len(server.requests) == 1
    assert SECRET not in "".join(capfd.readouterr())


def test_the_key_is_not_carried_to_another_host(judged):
    with endpoint(by_length) as other:
        moved = Reply(status=307, headers={"Location": f"{other.url}/chat/completions"})
        message = r"redirects requests, and the key is not sent to another URL; .* http://127"
        with endpoint(lambda request: moved) as server, pytest.raises(StudyError, match=message):
            judged(server.url, ["a"], api_key={"env": "JUDGE_API_KEY"})
    assert other.requests == []


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"endpoint": "file:///etc/passwd"}, "endpoint: is not a base URL"),
        ({"endpoint": "http://me:pw@h/v1"}, "endpoint: is not a base URL"),
        ({"endpoint": "http://h/v1?key=x"}, "endpoint: is not a base URL"),
        ({"endpoint": "http://h /v1\x1b"}, "endpoint: is not a base URL"),
        ({"api_key": {"env": "KEY"}}, "api_key: has characters that no key has"),
        ({"low": 1.0, "high": 1.0}, "low: 1.0 is not below high: 1.0"),
        ({"template": "gone.txt"}, "template: .*gone.txt: No such file"),
        ("{completion} {question.__class__}", r"template: \{question.__class__\} is not a field"),
        ("{completion:>9999999999}", "is not a field"),
        ("{completion}\n\n}", "template: line 3: a single }"),
        ("{completion", "template: line 1: a single {"),
        ("no field", "has no field {completion}"),
        ("{completion} {rubric}", "{rubric}: the data has no such column; fields: completion, fence, answer, level"),
        ("{completion} {trainer_state}", "{trainer_state}: the data has no such column"),
    ],
)
def test_bad_parameters_and_a_bad_template_are_refused_before_any_job(tmp_path, parameters, message):
    (tmp_path / "judge.txt").write_text(parameters if isinstance(parameters, str) else TEMPLATE)
    given = {"model": "m", "template": "judge.txt", "endpoint": "http://127.0.0.1:9/v1"}
    given |= {} if isinstance(parameters, str) else parameters
    with pytest.raises(StudyError, match=message) as error:
        check_component("judge", given, tmp_path, {"KEY": "caf\u00e9 at noon"})
    assert "\n" not in str(error.value)
    assert "noon" not in str(error.value)


def test_other_columns_are_filled_in_as_text_or_json_and_further_fields_replace_none(tmp_path):
    (tmp_path / "own.txt").write_text("{completion}|{rubric}|{points}|{answer}")
    columns = {"rubric": [["be {kind}", 1]], "points": [2.5], "answer": [None]}
    further = {"chat_template_kwargs": {"enable_thinking": False}, "model": "another"}
    with endpoint(lambda request: says({"score": 1})) as server:
        template = str(tmp_path / "own.txt")
        judge(["a"], model="m", template=template, endpoint=server.url, extra_body=further, **columns)
    [request] = server.requests
    assert request.prompt == 'a|["be {kind}", 1]|2.5|'
    assert (request.body["model"], request.body["chat_template_kwargs"]) == ("m", {"enable_thinking": False})
