"""prime-rl's and verifiers' files: what their own writers wrote, and the layouts of earlier versions."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from reward_ablation.imported.readers.prime_rl import read_answers, read_rollouts
from reward_ablation.imported.rows import check_ids, checked
from reward_ablation.system.errors import StudyError

FILES = Path(__file__).parents[1] / "files"
TRACES = "rollouts/step_1/train/effective/traces.jsonl"
REPLIES = ["It is 5", "No idea", "4", "Four"]
BRIEF = [1 / 3, 0.5, 1.0, 1.0]


#: prime-rl 0.6: verifiers' own form, with prime-rl's advantage.
OUTPUT = {"example_id": 7, "prompt": "q", "completion": "a", "reward": 1, "advantage": -0.25, "is_truncated": True}
OUTPUT |= {"metrics": {"r": 1.0, "s": None}, "token_usage": {"output_tokens": 9.0}, "env_name": "sums"}


def written(folder, name, lines):
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def trace(**fields):
    """A trace of one reply, as verifiers writes it, with other fields."""
    message = {"message": {"role": "user", "content": "q"}}
    reply = {"message": {"role": "assistant", "content": "a"}, "sampled": True, "mask": [False, True, True]}
    return {"version": 1, "nodes": [message, reply], "rewards": {"r": {"score": 1, "weight": 0.5}}, **fields}


def test_rollouts_that_prime_rl_wrote():
    rollouts = read_rollouts(FILES / "prime_rl", {})
    table = checked("rollouts", rollouts.table, "prime_rl").to_pydict()
    assert table["step"] == [1] * 4 + [2] * 4
    assert table["rollout"] == [0, 1] * 4
    assert table["completion"] == REPLIES * 2
    assert table["prompt"][:3:2] == [
        "system: Answer briefly.\n\nuser: What is 2 + 3?",
        "system: Answer briefly.\n\nuser: How many legs has a cat?",
    ]
    assert table["gold"] == ["5", "5", "4", "4"] * 2
    assert table["tokens"] == [2] * 8
    assert table["truncated"] == [False, False, False, True] * 2
    assert table["advantage"] == [0.75, -0.75] * 4
    assert table["score_correct"] == [1.0, 0.0] * 4
    assert table["score_brief"] == BRIEF * 2
    assert table["total"] == [1 + 0.5 / 3, 0.25, 1.5, 0.5] * 2
    assert all(label.startswith("sums/") for label in table["problem_id"])  # the environment, and the task's key
    assert rollouts.components == ["correct", "brief"]
    assert rollouts.missing == ["prime-rl's effective rollouts lack those that failed, or that a filter took out."]
    assert rollouts.metrics.to_pydict() == {"step": [1, 2], "learning_rate": [1e-6] * 2, "grad_norm": [0.5] * 2}


def test_components_by_option(tmp_path):
    options = {"scores": {"correctness": "correct", "length": "words"}}  # words is a metric, no reward
    rollouts = read_rollouts(FILES / "prime_rl", options)
    assert rollouts.components == ["correctness", "length"]
    assert rollouts.table["score_length"].to_pylist() == [3, 2, 1, 1] * 2
    judge = trace(agent={"name": "judge", "trainable": False}, rewards={"fair": {"score": 1}})
    lines = [{"traces": []}, {"traces": [judge, trace()]}]
    rollouts = read_rollouts(written(tmp_path, TRACES, lines), {"agent": "judge"})
    assert (rollouts.components, len(rollouts.table)) == (["fair"], 1)
    assert "Episodes that failed before their first reply have no rollout." in rollouts.missing
    with pytest.raises(StudyError, match="in no folder step_N; name the folder of the run"):
        read_rollouts(written(tmp_path, "traces.jsonl", lines) / "traces.jsonl", {})


@pytest.mark.parametrize(
    ("line", "row", "sentences"),
    [
        # 0.7: a trace for each line, and rewards times their weights
        (
            {**trace(rewards={"r": 0.5}), "env_name": "sums", "task": {"data": {"answer": 5}, "key": "k"}},
            {"problem_id": "sums/k", "gold": "5", "score_r": 0.5, "total": 0.5, "advantage": None},
            ["effective", "no advantage", "times their weights"],
        ),
        # 0.8: a reward is null where the scoring did not run
        (
            trace(rewards={"r": None, "s": {"score": 2.0}}, stop_condition="max_turns", task={"hash": "h"}),
            {"problem_id": "h", "total": 2.0, "truncated": True},
            ["effective", "no advantage", "no score r"],
        ),
        # an episode of several agents, one of which is trained
        (
            {"traces": [trace(agent={"name": "judge", "trainable": False}), trace(task={"data": {"answer": [1]}})]},
            {"completion": "a", "total": 0.5, "gold": None},
            ["effective", "no advantage"],
        ),
        (
            OUTPUT,
            {"problem_id": "sums/7", "advantage": -0.25, "tokens": 9, "truncated": True, "score_r": 1.0, "step": 1},
            ["do not tell rewards from metrics", "1 of 1 completions have no score s", "counted steps from 0"],
        ),
    ],
)
def test_layouts_of_all_versions(line, row, sentences, tmp_path):
    name = "rollouts/step_0/train_rollouts.jsonl" if "example_id" in line else TRACES
    rollouts = read_rollouts(written(tmp_path, name, [line]), {})
    found = checked("rollouts", rollouts.table, "prime_rl").to_pylist()[0]
    assert {name: found[name] for name in row} == row
    assert len(rollouts.missing) == len(sentences)
    assert all(any(sentence in one for one in rollouts.missing) for sentence in sentences)


@pytest.mark.parametrize(
    ("line", "options", "message"),
    [
        ({"traces": [trace(agent={"name": "a"}), trace(agent={"name": "b"})]}, {}, "2 agents; write the option agent"),
        ({"traces": [trace(), trace()]}, {}, "2 traces of agent agent in an episode; only one is read"),
        ({"traces": [trace(agent={"name": "a"})]}, {"agent": "b"}, "no agent 'b'"),
        (trace(version=2), {}, "version 2; only 1 is read"),
        (trace(nodes=[{"message": {}, "mask": [[True]]}]), {}, "mask is .*not a finite number"),
        (trace(rewards={"r": [1]}), {}, "rewards: r is a list, not an object"),
    ],
)
def test_refused(line, options, message, tmp_path):
    with pytest.raises(StudyError, match=f"traces.jsonl: line 1.*{message}"):
        read_rollouts(written(tmp_path, TRACES, [line]), options)


def test_text_of_messages(tmp_path):
    """Parts that are no text leave their type, and content that is nested very deep is no text."""
    deep = [{"text": "q"}, {"type": "image_url"}]
    for _ in range(300):
        deep = [{"text": "q", "content": deep}]
    contents = (deep, [{"text": "r"}, {"type": "image_url"}])
    nodes = [{"message": {"role": "user", "content": content}} for content in contents]
    row = read_rollouts(written(tmp_path, TRACES, [trace(nodes=nodes)]), {}).table.to_pylist()[0]
    assert (row["prompt"], row["completion"]) == ("q\n\nr\n\n[image_url]", "")


@pytest.mark.parametrize("path", ["verifiers", f"prime_rl/{TRACES}"])
def test_answers(path):
    answers = read_answers(FILES / path, {"metric": "correct"})
    table = checked("answers", answers.table, path).to_pydict()
    assert table["correct"] == [True, False, True, False]
    assert table["sample"] == [0, 1, 0, 1]
    assert table["mode"] == ["sampled"] * 4
    assert table["completion"] == REPLIES
    assert [label.startswith("sums/") for label in table["problem_id"]] == [path != "verifiers"] * 4
    assert table["brief"] == BRIEF
    assert table["reward"] == [1 + 0.5 / 3, 0.25, 1.5, 0.5]


def test_prompts_of_a_task_may_vary():
    rows = pa.table({"problem_id": ["k", "k", "l"], "prompt": ["a", "b", "c"], "gold": ["1", "1", None]})
    words = ["1 of 2 problems have several prompts; the first one counts."]
    assert check_ids(rows, "prompt", "x", own_ids=True) == words
