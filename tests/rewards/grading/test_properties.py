"""Properties of grading that hold for any text, and for any number in any notation."""

import re
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from public_data import rows
from reward_ablation.rewards import extract, grade, grade_answer
from reward_ablation.rewards.grading.exact import exact_value
from reward_ablation.rewards.grading.normalisation import normalise

FORMATS = ["boxed", "hash", "final", "tag"]


def marked(answer: str, answer_format: str) -> str:
    """An answer where its format wants it."""
    return {
        "boxed": rf"\boxed{{{answer}}}",
        "hash": f"\n#### {answer}",
        "final": f"\nFinal: {answer}",
        "tag": f"<answer>{answer}</answer>",
    }[answer_format]


def notations(value: Fraction) -> list[str]:
    """Exact ways to write a number, at least two: also decimal, percent, scientific and mixed where it can be done."""
    sign, p, q = ("-" if value < 0 else ""), abs(value.numerator), value.denominator
    written = [rf"{sign}\frac{{{p}}}{{{q}}}", f"{sign}{p}/{q}", rf"{sign}\dfrac{{{2 * p}}}{{{2 * q}}}"]
    if 10**40 % q == 0:
        with localcontext() as context:
            context.prec = 400
            decimal = Decimal(p) / Decimal(q)
            percent, small = decimal * 100, decimal.scaleb(-3)
        written += [f"{sign}{decimal:f}", f"{sign}{decimal:,f}", rf"{sign}{percent:f}\%"]
        written += [f"{sign}{decimal:f}000" if q > 1 else f"{sign}{p}.00"]
        written += [rf"{sign}{small:f} \times 10^{{3}}", f"{sign}{decimal * 1000:f}e-3"]
    if q > 1 and p > q:
        written += [rf"{sign}{p // q}\frac{{{p % q}}}{{{q}}}", f"{sign}{p // q} {p % q}/{q}"]
    return written


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


VALUES = ["-7", r"\frac{1}{3}", "1", r"\sqrt{2}", "2", r"2\pi", "12.5"]  # in ascending order, for the intervals
places = st.lists(st.integers(0, 6), min_size=4, max_size=4, unique=True)
#: Ways to write four values, which say something else if two of the values change places.
FORMS = [
    "a={}, b={}, c={}, d={}",
    r"AB = {}, BC = {}, CD = {} \text{{ and }} DA = {}",
    "f(0)={}, f(1)={}, f(2)={}, f(3)={}",
    "x={}, y={} or x={}, y={}",
    "x={},y={};x={},y={}",
    "({}, {}), ({}, {})",
    "{}, {} or {}, {}",
    r"[{}, {}] \cup [{}, {}]",
    "({}, {}, {}, {})",
    "{} apples, {} pears, {} eggs, {} plums",
    r"{}\text{{ days }}{}\text{{ hours }}{}\text{{ minutes }}{}\text{{ seconds}}",
    r"\begin{{pmatrix}} {} & {} \\ {} & {} \end{{pmatrix}}",
    r"\angle A = {}, \angle B = {}, \angle C = {}, \angle D = {}",
]


@settings(fixed, max_examples=200)
@given(form=st.sampled_from(FORMS), places=places, first=st.integers(0, 3), second=st.integers(0, 3))
def test_two_values_that_change_places_are_never_accepted(form, places, first, second):
    assume(first < second)
    assume(form != "{}, {} or {}, {}" or first < 2 <= second)  # a bare list has no order
    values = [VALUES[place] for place in (sorted(places) if "cup" in form else places)]
    swapped = list(values)
    swapped[first], swapped[second] = values[second], values[first]
    assert grade_answer(form.format(*values), form.format(*values)).status == "correct"
    assert grade_answer(form.format(*swapped), form.format(*values)).status != "correct"
    assert grade_answer(form.format(*values), form.format(*swapped)).status != "correct"
