"""Components of length and repetition, the control of noise, and the refusal of wrong parameters."""

import random as generator
from math import sqrt
from pathlib import Path

import pytest
from trl.rewards import accuracy_reward, get_cosine_scaled_reward

from public_data import rows
from reward_ablation.rewards import grade
from reward_ablation.rewards.components.character_length import character_length
from reward_ablation.rewards.components.cosine_length import cosine_length
from reward_ablation.rewards.components.random import random
from reward_ablation.rewards.components.repetition_penalty import repetition_penalty
from reward_ablation.rewards.components.soft_overlong import soft_overlong
from reward_ablation.rewards.components.token_length import token_length
from reward_ablation.rewards.load import load_component
from reward_ablation.system.errors import StudyError


def test_a_length_beside_its_target():
    ids = [[7] * tokens for tokens in (50, 20, 60, 0)]  # 1 - |tokens - 40| / 20, at least 0
    assert token_length(["text"] * 4, ids, target=40, width=20) == [0.5, 0.0, 0.0, 0.0]
    texts = ["é" * characters for characters in (30, 60, 0, 500)]  # 1 - |characters / 40 - 1|, at least 0
    assert character_length(texts, target=40, answer=["72"] * 4) == [0.75, 0.5, 0.0, 0.0]


@pytest.mark.parametrize(
    ("tokens", "right", "wrong"),
    [
        (0, 1.0, -1.0),
        (25, 0.75 + sqrt(2) / 8, -0.75 - sqrt(2) / 8),  # cos(π/4) = √2/2
        (100, 0.5, -0.5),
        (200, 0.5, -0.5),  # stays, and does not swing back
    ],
)
def test_cosine_length(tokens, right, wrong):
    completions = [r"\boxed{72}", r"\boxed{71}", "72", r"\boxed{72}"]
    scores = cosine_length(completions, ["72", "72", "72", ""], [[7] * tokens] * 4, max_len=100)
    assert scores == [pytest.approx(right), pytest.approx(wrong), pytest.approx(wrong), None]
    assert cosine_length(["#### 72"], ["72"], [[]], max_len=100, answer_format="hash") == [1.0]


@pytest.mark.parametrize(
    "values",
    [{}, {"min_value_wrong": 0.0, "max_value_wrong": -1.0, "min_value_correct": 2.0, "max_value_correct": 1.0}],
)
def test_cosine_length_scores_as_trl_does(values):
    """On boxed golds of MATH-500, each for its own problem and the next, where both graders give the same verdict."""
    golds = [rf"$\boxed{{{row['answer']}}}$" for row in rows("math500.jsonl")[:20]]
    completions = [f"So the answer is {gold}." for gold in golds * 2]
    answers = golds + golds[1:] + golds[:1]
    ids = [[7] * (2 * n) for n in range(40)]
    chat = [[{"role": "assistant", "content": text}] for text in completions]
    ours = cosine_length(chat, answers, ids, max_len=100, **values)
    theirs = get_cosine_scaled_reward(100, **values)(chat, answers, ids)
    verdicts = [grade(text, gold).status == "correct" for text, gold in zip(completions, answers, strict=True)]
    same = [n for n, verdict in enumerate(accuracy_reward(chat, answers)) if verdict == verdicts[n]]
    assert len(same) > 35
    assert {verdicts[n] for n in same} == {True, False}
    assert [ours[n] for n in same] == pytest.approx([theirs[n] for n in same], abs=1e-15)


def test_soft_overlong():
    """DAPO, section 4.1: 16,384 tokens expected, and 4,096 more as the cache."""
    ids = [[7] * tokens for tokens in (16384, 17408, 40000)]
    assert soft_overlong(["a"] * 3, ids, max_completion_len=20480, soft_punish_cache=4096) == [0.0, -0.25, -1.0]
    assert soft_overlong(["a"] * 2, [[7] * 10, [7] * 11], max_completion_len=10, soft_punish_cache=0) == [0.0, -1.0]


@pytest.mark.parametrize(
    ("ids", "ngram_size", "score"),
    [
        ([1, 2], 3, 0.0),  # no n-gram at all
        ([1, 1, 1, 1, 1, 1], 3, -0.75),  # 1 different one of 4
        ([1, 2, 1, 2, 1], 1, -0.6),  # 2 different ones of 5
    ],
)
def test_repetition_penalty(ids, ngram_size, score):
    assert repetition_penalty(["text"], [ids], ngram_size=ngram_size) == [pytest.approx(score)]
    assert repetition_penalty(["text"], [ids], ngram_size=ngram_size, max_penalty=-0.1) == [pytest.approx(score / 10)]


@pytest.mark.parametrize(
    ("function", "parameters", "message"),
    [
        ("soft_overlong", {"max_completion_len": 256, "soft_punish_cache": 512}, "soft_punish_cache: 512 is above"),
        ("repetition_penalty", {"ngram_size": 0}, "ngram_size: Input should be greater than 0"),
        ("cosine_length", {"max_len": 9, "max_value_wrong": float("nan")}, "max_value_wrong: Input should be a finite"),
        ("final_line", {"well_formed": "0.1"}, "well_formed: Input should be a valid number"),
    ],
)
def test_a_wrong_parameter_is_refused_in_one_line_before_any_job(function, parameters, message):
    with pytest.raises(StudyError, match=f"^components: {function}: ") as refusal:
        load_component(function, parameters, Path())
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_random_repeats_moves_no_generator_and_is_uniform():
    state = generator.getstate()
    scores = random(["a", "b", "a", "a"], ["p", "p", "p", "q"], seed=1)
    assert generator.getstate() == state
    assert scores[0] == 0.9761793527944991  # another number would change each run with this component
    assert scores[0] == scores[2]
    assert len({*scores, *random(["a"], ["p"], seed=2)}) == 4  # seed, problem and text each count
    many = random([str(n) for n in range(4000)], ["p"] * 4000)
    assert all(0 <= score < 1 for score in many)
    assert abs(sum(many) / 4000 - 0.5) < 0.02  # the standard error of the mean is 0.0046
