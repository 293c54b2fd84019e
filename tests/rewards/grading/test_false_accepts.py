"""Answers that differ in a label, a unit, a conjunction or beyond the next few points, and are therefore wrong."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from reward_ablation.rewards import grade_answer

DIFFERENT = [
    # a label is part of the statement
    ("f(2)=4", "f(0)=4"),
    ("N(5)=10", "N(6)=10"),
    ("f^{-1}(2)=3", "f(2)=3"),
    ("C(5,2)=10", "C(5,3)=10"),
    ("f(1)+f(2)=3", "f(1)+f(3)=3"),
    ("2f(1)=4", "2f(2)=4"),
    ("f(f(1))=2", "f(f(2))=2"),
    ("f(0)=1,f(1)=0", "f(0)=0,f(1)=1"),
    ("5!=120", "6!=120"),
    (r"\log_2 8=3", r"\log_2 9=3"),
    ("|A|=3", "|B|=3"),
    # "and" is not "or"
    ("x>2 and x<-2", "x>2 or x<-2"),
    ("x=1 and y=2", "x=1 or y=2"),
    # pairs stay pairs
    ("x=1,y=2 or x=3,y=4", "x=1,y=4 or x=3,y=2"),
    ("p=5,q=2;p=7,q=3", "p=5,q=3;p=7,q=2"),
    ("1,2 or 3,4", "1,4 or 3,2"),
    ("1,2;3,4", "1,4;3,2"),
    # a bare list has no names
    ("4, 9", "AB=9, CD=4"),
    ("2,1", "a=1,b=2"),
    ("1,2", "a=1,b=2"),
    ("(2,1)", "a=1,b=2"),
    ("(x=1,y=2)", "(x=2,y=1)"),
    ("x_1=2, x_2=1", "x_1=1, x_2=2"),
    # units belong to their numbers
    ("5 ft 3 in", "3 ft 5 in"),
    (r"5\text{ ft }3\text{ in}", r"3\text{ ft }5\text{ in}"),
    ("2 hours and 30 minutes", "30 hours and 2 minutes"),
    ("3 apples, 4 pears", "4 apples, 3 pears"),
    (r"3\text{ apples}, 4\text{ pears}", r"4\text{ apples}, 3\text{ pears}"),
    # only a known unit is dropped
    ("72 googol", "72"),
    ("72 mil", "72"),
    ("$72 loss", "72"),
    ("72 cubic", "72"),
    ("€5", "$5"),
    (r"\$3 and 4 cents", r"\$4 and 3 cents"),
    ("3 m by 4 cm", "4 m by 3 cm"),
    # a sign that Unicode writes small is still a sign
    ("2ˣ", "2x"),
    ("2³", "23"),
    ("0<x<1", "0<y<1"),
    ("A(1,2), B(3,4)", "A(3,4), B(1,2)"),
    # words between values, and times of day
    *((f"3 {word} 4", f"4 {word} 3") for word in ("to", "of", "mod", "per", "for", "in", "vs", "R", r"\text{ to }")),
    *(("20:34", "10:17"), ("8:30 PM", "4:15 PM"), ("8:34 PM", "8:34 AM"), ("0:30", "0:31")),
    *((r"\text{it}", r"\text{ti}"), (r"\text{the cat}", r"\text{cat the}"), ("f(11)_2", "f(11)_3"), ("1_{2}", "1_{3}")),
    (r"5\text{ km}/\text{h}", r"5\text{ km}"),
    # formulae that agree at the nearest points
    ("|x+1000|-1000", "x"),
    (r"\max(x,-1000)", "x"),
    (r"\max(x,-10^{9})", "x"),
    ("|xy|", "xy"),
    (r"\sqrt{x^2y^2}", "xy"),
]

SAME = [
    ("f(2)=4", "4"),
    ("f(x)=2x+3", "2x+3"),
    ("y=2x", "x=y/2"),
    ("x=1,x=2", "2,1"),
    ("x=1, 2", "2,1"),
    (r"x_1=1, x_2=2", "1, 2"),
    ("x=1,y=2", "y=2,x=1"),
    ("x=1,y=2", "(1,2)"),
    ("p=5,q=2;p=7,q=2", "p=7,q=2 or p=5,q=2"),
    ("p=5,q=2;p=7,q=2", "(5,2),(7,2)"),
    ("1, 2, or 3", "3, 1, 2"),
    ("5 feet 3 inches", "5 ft 3 in"),
    ("3 hours and 30 minutes", "3 hours 30 minutes"),
    ("x<-2 or x>2", r"(-\infty,-2)\cup(2,\infty)"),
    ("|x|", r"\sqrt{x^2}"),
    ("|-3x|", "3|x|"),
    # East Asian text
    *(("42元", "42"), ("42个", "42"), ("2小时", "2"), ("答案是42", "42"), ("x＝5", "5"), ("５０％", r"50\%")),
    *(("（1，2）", "(1,2)"), ("１，２", "1,2"), ("３/４", r"\frac34")),
    # currencies and words
    *(("¥100", "100"), ("₹100", "100"), ("Rs. 500", "500"), ("US$100", "100"), ("US$100", r"\$100")),
    *(("twenty-five", "25"), ("seventy-two", "72"), ("DNE", r"\text{does not exist}")),
    # intervals
    *(("0<x<1", "1>x>0"), ("]0,1[", "(0,1)")),
    *(("one half", r"\frac12"), ("two-thirds", r"\frac23"), ("two dozen", "24"), (r"\{1\}\cup\{1,4\}", r"\{1,4\}")),
]


@pytest.mark.parametrize(("answer", "gold"), [*DIFFERENT, *((gold, answer) for answer, gold in DIFFERENT)])
def test_what_differs_is_wrong(answer, gold):
    assert grade_answer(answer, gold).status == "wrong"


def test_a_chinese_scale_is_no_unit():
    assert grade_answer("42万", "42").status == grade_answer("3倍", "3").status == "unparseable"


@pytest.mark.parametrize(("answer", "gold"), [*SAME, *((gold, answer) for answer, gold in SAME)])
def test_what_is_the_same_is_correct(answer, gold):
    assert grade_answer(answer, gold).status == "correct"


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


@settings(derandomize=True, deadline=None, max_examples=300)
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
