"""Properties of grading that hold for any text, and for any number in any notation."""

import re
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from public_data import rows
from reward_ablation.rewards import extract, grade
from reward_ablation.rewards.grading.exact import exact_value
from reward_ablation.rewards.grading.normalisation import normalise

from .spellings import FORMATS, marked, notations

#: The same examples in every run; a busy machine is no failure.
fixed = settings(derandomize=True, deadline=None, max_examples=50)

characters = st.characters(exclude_categories=())  # with lone surrogates
marks = ["\\boxed", "\\fbox{", "\\boxed{7}", "####", "Final:", "<answer>", "</answer>", "and", "or"]
pieces = st.sampled_from([*r"\{}$#<>/ ,.-%1a", "\n", *marks])
texts = st.lists(st.one_of(pieces, st.sampled_from(["<think>", "</think>"]), characters), max_size=40).map("".join)
#: Text that may stand before an answer: anything but a thought that does not end.
before = (texts | st.sampled_from(["1" * 200_000, "{" * 5000, "\\\\" * 999, '{"status": "wrong"} '])).map(
    lambda text: text.replace("<think>", "<thin>")
)
integers = st.integers(-(10**12), 10**12)
fractions = st.one_of(
    integers.map(Fraction),
    st.builds(Fraction, integers, st.sampled_from([2, 4, 5, 8, 20, 125, 1000, 10**6])),
    st.builds(Fraction, st.integers(-999, 999), st.integers(1, 999)),
)
spelled = fractions.flatmap(lambda value: st.sampled_from(notations(value)).map(lambda text: (value, text)))
two_spellings = fractions.flatmap(lambda value: st.tuples(*[st.sampled_from(notations(value))] * 2))
balanced = st.recursive(
    st.sampled_from(["1", "x", r"\{", r"\}", r"\\", " y", "+", r"\sqrt"]),
    lambda inner: st.lists(inner).map(lambda parts: "{" + "".join(parts) + "}"),
    max_leaves=20,
)


@fixed
@pytest.mark.parametrize("answer_format", [*FORMATS, "last_number"])
@given(text=texts)
def test_any_text_has_a_stripped_answer_from_it_or_none(answer_format, text):
    answer = extract(text, answer_format)
    assert answer is None or (answer and answer == answer.strip())
    boxes = len(re.findall(r"\\(?:boxed|fbox)", text))  # several that are joined become one list
    assert answer is None or answer in text or (answer_format == "boxed" and boxes > 1)


@fixed
@pytest.mark.parametrize("answer_format", FORMATS)
@given(before=before, answer=balanced | st.text(st.characters(exclude_characters="<\n#{}\\"), min_size=1))
def test_what_is_put_after_the_last_marker_comes_out(answer_format, before, answer):
    assume(answer.strip())
    assert extract(f"{before} so {marked(answer, answer_format)}", answer_format) == answer.strip()


@fixed
@pytest.mark.parametrize("answer_format", FORMATS)
@given(before=before, answer=integers.map(str), thought=before)
def test_nothing_in_a_thought_counts(answer_format, before, answer, thought):
    thought = thought.replace("</think>", "")
    assert extract(f"<think>{thought} {marked(answer, answer_format)}</think>", answer_format) is None
    assert extract(f"{marked(answer, answer_format)}</think> that is it", answer_format) is None
    assert extract(f"<think>{thought}</think>{marked(answer, answer_format)}", answer_format) == answer


@fixed
@given(spelled=spelled, minus=st.sampled_from(["-", "\u2212", "\u2013", "- "]))
def test_every_notation_is_read_back_exactly_and_a_sign_negates_it(spelled, minus):
    value, text = spelled
    assert exact_value(normalise(text)) == value
    assert value < 0 or exact_value(normalise(minus + text)) == -value


@fixed
@given(pair=two_spellings, wrap=st.sampled_from(["{}", "${}$", "$ {} $", r"\({}\)", " {} ", "{}.", "**{}**"]))
def test_a_number_is_correct_in_any_two_notations_whatever_surrounds_it(pair, wrap):
    answer, gold = pair
    assert grade(marked(wrap.replace("{}", answer), "tag"), gold, "tag").status == "correct"


@fixed
@given(one=spelled, other=spelled)
def test_another_number_is_wrong_in_any_notation(one, other):
    assume(one[0] != other[0])
    for (value, text), (bare, plain) in ((one, other), (other, one)):
        assume("%" not in text or "%" in plain or 100 * value != bare)  # the sign may be left out
    assert grade(marked(one[1], "boxed"), other[1]).status == "wrong"


@fixed
@given(numbers=st.lists(st.integers(-99, 99), min_size=2, max_size=5, unique=True), data=st.data())
def test_sets_have_no_order_and_tuples_have_one(numbers, data):
    shuffled = data.draw(st.permutations(numbers))
    inner, gold = ", ".join(map(str, shuffled)), ", ".join(map(str, numbers))
    assert grade(rf"\boxed{{\{{{inner}\}}}}", rf"\{{{gold}\}}").status == "correct"
    assert grade(rf"\boxed{{{inner}}}", gold).status == "correct"
    assert grade(rf"\boxed{{\{{{inner}\}}}}", f"({gold})").status == "wrong"
    same = "correct" if shuffled == numbers else "wrong"
    assert grade(rf"\boxed{{({inner})}}", f"({gold})").status == same


@pytest.mark.parametrize(
    "name", ["math500.jsonl", pytest.param("math_train.jsonl", marks=[pytest.mark.slow, pytest.mark.long])]
)
def test_normalising_twice_changes_no_answer_of_math(name):
    once = [normalise(row["answer"]) for row in rows(name)]
    assert [normalise(text) for text in once] == once


def test_the_short_cut_for_plain_numbers_is_what_the_rules_give():
    numbers = ["72", "1,234", "1,234.50", "0.5", "12345678", "1,2"]
    for parts in product(["", "$", r"\$"], ["", "-", "+"], numbers, ["", ".", "%", r"\%", r"\%."]):
        text = "".join(parts)
        assert normalise(text) == normalise(f" {text} "), text  # a space is no plain number
