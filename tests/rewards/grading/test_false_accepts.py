"""Two values that change places make another answer. Single pairs of this kind are in pinned_verdicts.tsv."""

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from reward_ablation.rewards import grade_answer

VALUES = ["-7", r"\frac{1}{3}", "1", r"\sqrt{2}", "2", r"2\pi", "12.5"]  # in ascending order, for the intervals
places = st.lists(st.integers(0, 6), min_size=4, max_size=4, unique=True)
#: Ways to write four values, which say something else if two of the values change places.
FORMS = [
    "a={}, b={}, c={}, d={}",
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
]


@settings(derandomize=True, deadline=None, max_examples=200)
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
