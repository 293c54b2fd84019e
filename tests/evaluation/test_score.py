import pytest

from reward_ablation.evaluation.requests import Completion, Request
from reward_ablation.evaluation.score import SCHEMA, score, score_texts


@pytest.mark.parametrize(
    ("text", "answer_format", "answer", "status", "lenient"),
    [
        ("so 4\n#### 72", "hash", "72", "correct", True),
        ("so 4\n#### 71", "hash", "71", "wrong", False),
        # right, but not where the strict grade looks: an arm without a format reward is not called wrong for it
        ("the answer is 72", "hash", None, "unparseable", True),
        (r"\boxed{72}", "hash", None, "unparseable", True),
        # the other way: a strict answer that is right where the lenient one reads the box first
        (r"\boxed{1} #### 72", "hash", "72", "correct", False),
        ("", "hash", None, "unparseable", False),
        (r"\boxed{9^{9^{9}}}", "boxed", "9^{9^{9}}", "timeout", False),
    ],
)
def test_a_text_is_graded_strictly_and_leniently(text, answer_format, answer, status, lenient):
    [columns] = score_texts([text], ["72"], answer_format)
    assert columns.pop("correct_math_paper") == (status == "correct")  # a plain number, or none
    assert columns == {
        "answer": answer,
        "status": status,
        "correct_strict": status == "correct",
        "correct_lenient": lenient,
        "format": answer is not None,
    }


@pytest.mark.parametrize(
    ("text", "gold", "strict", "math_paper"),
    [
        (r"\boxed{\frac12}", r"\frac{1}{2}", True, True),
        (r"\boxed{72.0}", "72", True, False),  # a value against a string
        (r"\boxed{5}", r"so \boxed{5}", True, True),  # both read the gold without its box
        ("the answer is 5", "5", False, False),  # no answer: nothing to compare
        (r"\boxed{}", r"\text{ m}", False, False),  # nor is an empty box the gold that is empty by those rules
    ],
)
def test_the_second_grader_judges_the_strict_answer(text, gold, strict, math_paper):
    [columns] = score_texts([text], [gold], "boxed")
    assert (columns["correct_strict"], columns["correct_math_paper"]) == (strict, math_paper)


def test_rows_follow_the_requests(tokenizer):
    end = tokenizer.eos_token_id
    requests = [Request("b", "greedy", 0, [3]), Request("a", "sampled", 1, [3])]
    completions = [
        Completion([*tokenizer("#### 7")["input_ids"], end], truncated=False),
        Completion(tokenizer("## 8")["input_ids"], truncated=True),
    ]
    table = score(requests, completions, {"a": "8", "b": "8"}, "hash", tokenizer)
    assert table.schema == SCHEMA
    assert [list(row.values()) for row in table.to_pylist()] == [
        # without the end token, which counts as a token
        ["b", "greedy", 0, "#### 7", "7", "wrong", False, False, False, True, 7, False],
        ["a", "sampled", 1, "## 8", None, "unparseable", False, True, False, False, 4, True],
    ]
