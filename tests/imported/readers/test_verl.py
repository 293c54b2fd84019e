"""verl's files: what its own functions wrote, a round trip, and what its trainers leave out."""

import json
import math
import os
from collections import Counter
from pathlib import Path

import pytest

from reward_ablation.imported.readers.verl import read_answers, read_rollouts
from reward_ablation.imported.rows import checked
from reward_ablation.system.errors import StudyError

FILES = Path(__file__).parents[1] / "files" / "verl"

PROMPTS = ["user\nWhat is 2 + 3?\nassistant\n", "user\nHow many legs has a cat?\nassistant\n"]


def write_generations(inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path, global_steps):
    """The body of verl 0.9.1's function in `trainer/ppo/ray_trainer.py`."""
    os.makedirs(dump_path, exist_ok=True)
    filename = os.path.join(dump_path, f"{global_steps}.jsonl")
    n = len(inputs)
    base_data = {"input": inputs, "output": outputs, "gts": gts, "score": scores, "step": [global_steps] * n}
    for k, v in reward_extra_infos_dict.items():
        if len(v) == n:
            base_data[k] = v
    with open(filename, "w") as f:
        for i in range(n):
            entry = {k: v[i] for k, v in base_data.items()}
            f.write(json.dumps(entry, ensure_ascii=False, default=str) + "\n")


def test_rollouts_that_verl_wrote():
    rollouts = read_rollouts(FILES / "rollouts", {"metrics": "../metrics.jsonl"})
    table = checked("rollouts", rollouts.table, "verl").to_pydict()
    assert table["step"] == [1] * 4 + [2] * 4
    assert table["rollout"] == [0, 1] * 4
    assert len(set(table["problem_id"])) == 2
    assert table["prompt"][::2] == PROMPTS * 2
    assert table["completion"] == ["It is 5", "No idea", "4", "Four"] * 2
    assert table["gold"] == ["5", "5", "4", "4"] * 2
    assert table["total"] == [1.5, 0.5, 1.5, 0.5, 2.0, 1.0, 2.0, 1.0]
    assert table["score_acc"] == table["score_format"] == [1.0, 0.0] * 4  # a text (pred) is no score
    assert rollouts.components == ["acc", "format"]
    assert table["tokens"] == table["truncated"] == table["advantage"] == [None] * 8
    assert rollouts.metrics.to_pydict() == {"step": [1, 2], "learning_rate": [1e-6] * 2, "entropy": [0.5, 0.25]}


def test_rows_come_back_as_they_were_written(tmp_path):
    texts = ["", 'ä\u2028\x00"\\\n', "𝔸🙂", "<script>"]
    numbers = [0.1, -0.0, 1e-300, 12345678.900000001]
    for step in (9, 10):  # by name, 10 comes before 9
        write_generations(
            texts, texts[::-1], texts, numbers, {"acc": numbers[::-1], "ok": [True, False] * 2}, tmp_path, step
        )
    table = checked("rollouts", read_rollouts(tmp_path, {}).table, "verl").sort_by([("step", "ascending")]).to_pylist()
    assert [row["step"] for row in table] == [9] * 4 + [10] * 4
    for row in table:
        place = texts.index(row["prompt"])
        assert (row["completion"], row["gold"]) == (texts[::-1][place], texts[place])
        assert (row["total"], row["score_acc"]) == (numbers[place], numbers[::-1][place])
        assert row["score_ok"] == (place % 2 == 0)


@pytest.mark.parametrize(
    ("extra", "scores", "sentence"),
    [
        ({"acc": [1, 0], "overlong_reward": [-0.5, 0.0]}, {"acc": [1, 0], "overlong_reward": [-0.5, 0]}, "overlong"),
        ({"acc": [1, None]}, {"acc": [1, math.nan]}, "1 of 2 completions have no score acc"),
        ({"acc": ["1.0", "0.0"]}, {}, "no scores of components"),  # default=str makes texts of NumPy's numbers
    ],
)
def test_what_a_trainer_leaves_out(extra, scores, sentence, tmp_path):
    write_generations(["q"] * 2, ["a", "b"], [None, ["5", 6]], [1.0, 0.0], extra, tmp_path, 1)
    rollouts = read_rollouts(tmp_path, {})
    assert rollouts.components == list(scores)
    for name, values in scores.items():
        assert rollouts.table[f"score_{name}"].to_pylist() == pytest.approx(values, nan_ok=True)
    assert any(sentence in missing for missing in rollouts.missing)
    assert rollouts.table["gold"].to_pylist() == [None, '["5", 6]']
    with pytest.raises(StudyError, match="no score 'pred'; scores here: "):
        read_rollouts(tmp_path, {"scores": {"correctness": "pred"}})
    # verl's trainer of version 1 writes nothing but the sum
    assert read_rollouts(tmp_path, {"scores": {"reward": "score"}}).table["score_reward"].to_pylist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("uids", "groups"),
    [
        (["a_1", "a_1", "a_2", "a_2", "b", "b"], [2, 2, 2]),
        (["p_0_0", "p_1_0", "q_0_0", "q_1_0", "r_0_0", "r_1_0"], [2, 2, 2]),  # of each output
        (list("abcdef"), [4, 2]),  # each line has its own
        (None, [4, 2]),
    ],
)
def test_groups_of_one_prompt_in_a_step_are_told_apart_by_uid(tmp_path, uids, groups):
    extra = {"acc": [1, 1, 0, 0, 1, 0], **({"uid": uids} if uids else {})}
    write_generations(["q"] * 4 + ["r"] * 2, [*"abcdef"], ["1"] * 6, [1.0] * 6, extra, tmp_path, 1)
    rollouts = read_rollouts(tmp_path, {})
    table = checked("rollouts", rollouts.table, "verl")
    assert list(Counter(table["problem_id"].to_pylist()).values()) == groups
    assert any(line.startswith("1 group of a prompt that occurs") for line in rollouts.missing) == (len(groups) == 3)


def test_a_step_in_two_files_is_refused(tmp_path):
    for step in (1, 2):
        write_generations(["q"], ["a"], ["5"], [1.0], {"acc": [1.0]}, tmp_path, step)
    both = "".join((tmp_path / f"{step}.jsonl").read_text() for step in (1, 2))
    (tmp_path / "all.jsonl").write_text(both)
    with pytest.raises(StudyError, match=r"all\.jsonl: line 1: step 1 is in .*1\.jsonl, too; take one of the two out"):
        read_rollouts(tmp_path, {})


def test_metrics_before_training_are_left_out(tmp_path):
    write_generations(["q"], ["a"], ["5"], [1.0], {"acc": [1.0]}, tmp_path, 1)
    lines = [{"step": step, "data": {"actor/entropy": 0.5, "other": "text"}} for step in (0, 1)]
    (tmp_path / "log").write_text("\n".join(map(json.dumps, lines)))
    assert read_rollouts(tmp_path, {"metrics": "log"}).metrics.to_pydict() == {"step": [1], "entropy": [0.5]}


@pytest.mark.parametrize(
    ("options", "metric"), [({}, "acc"), ({"step": 0}, "acc"), ({"metric": "reward", "mode": "sampled"}, "reward")]
)
def test_answers_of_a_validation(options, metric):
    answers = read_answers(FILES / "validation", options)
    table = checked("answers", answers.table, "verl").to_pydict()
    assert table["correct"] == [True, False, True, False]
    assert table["sample"] == [0, 1, 0, 1]
    assert table["mode"] == ["sampled"] * 4
    assert metric not in answers.metrics
    assert ("how answers were drawn" in " ".join(answers.missing)) == ("mode" not in options)


@pytest.mark.parametrize(
    ("keys", "completions", "correct"),
    [
        (["p_0_0", "p_0_1", "p_1_0"], ["b", "c"], [False, True]),  # of an agent's outputs, the last is the answer
        (["val_0", "val_0", "val_1"], ["a", "b", "c"], [True, False, True]),  # no session
        ([None] * 3, ["a", "b", "c"], [True, False, True]),
    ],
)
def test_an_agent_answers_once(tmp_path, keys, completions, correct):
    write_generations(["q", "q", "r"], ["a", "b", "c"], ["4"] * 3, [1.0, 0.0, 1.0], {"uid": keys}, tmp_path, 3)
    table = read_answers(tmp_path, {"mode": "sampled"}).table.to_pydict()
    assert (table["completion"], table["correct"]) == (completions, correct)
