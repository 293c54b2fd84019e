"""Properties of every component that comes with the workflow."""

from pathlib import Path

import pytest

from reward_ablation.rewards.groups import OF_GROUPS
from reward_ablation.rewards.load import component_names, load_component

from . import EXAMPLE_PARAMETERS, FURTHER_COLUMNS

TEXTS = [
    r"<think>First, 9 * 8.</think><answer>72</answer>",
    "Step 1: 9 * 8\nso $\\boxed{72}$",
    "72 eggs\n#### 72",
    "Final: 72",
    "",
]
COLUMNS = {"answer": "72", "problem_id": "p", "question": "9 * 8?", "solution": "72", "level": None, "subject": None}
COLUMNS |= FURTHER_COLUMNS

LONG = 200_000
#: Start, repeated unit and end of long texts that a careless regular expression would read again and again.
#: If the time grew with the square of the length, the test would not end.
HOSTILE = [
    ("", " ", "x"), ("", "\n", "x"), ("", "\x00", ""), ("", "\ud800", ""), ("", "1,111", ""), ("Final: ", "2,222", "x"),
    ("Final:", "\t", "x"), ("", "\nFinal: 1", ""), ("Step ", "3", "."), ("", "\n1.", ""), ("", "<think>", ""),
    ("<think>", "</think><answer>", "</answer>"), ("<answer>", "-", "</answer>"), ("<answer>", "1/", "</answer>"),
    ("", "\\boxed{", ""), ("", "\\boxed 1, ", ""), ("\\boxed", "  ", ""), ("\\boxed{", "{}", "}"),
    ("\\boxed{", "\\frac1", "}"), ("####", " 6", ""), ("", "[", ""), ("", "<<", ">"), ("", "*", ""), ("", "**a", ""),
    ("", "p. ", "s"), ('', '."', 'x'), ("", "a. ", ""), ("", "a-", "!"), ("", "。", ""), ("", "******", "x"),
    ("```json", "{", ""), ("", "\n\n", "x"), ("", "Step", "1"),
]  # fmt: skip

#: Components that run a model have other tests: a batch changes the last bits of their scores, and a long text
#: takes minutes.
OF_MODELS = {"judge", "reward_model"}


@pytest.fixture(params=[name for name in component_names() if name not in OF_MODELS])
def component(request):
    return load_component(request.param, EXAMPLE_PARAMETERS.get(request.param, {}), Path(), further=[*FURTHER_COLUMNS])


def scores_of(component, completions):
    columns = {name: [value] * len(completions) for name, value in COLUMNS.items()}
    return component(completions, completion_ids=[[7] * 9 for _ in completions], **columns)


def test_a_score_is_a_float_for_each_completion_and_does_not_depend_on_the_batch(component):
    """Layouts that cut groups rely on this: such a component is called with parts of groups."""
    scores = scores_of(component, TEXTS)
    assert [type(score) for score in scores] == [float] * len(TEXTS)
    assert scores_of(component, []) == []
    if component.__name__ not in OF_GROUPS:
        assert scores == [scores_of(component, [text])[0] for text in TEXTS]
        assert scores == scores_of(component, TEXTS[::-1])[::-1]


def test_a_conversation_scores_as_its_text(component):
    chats = [[{"role": "assistant", "content": line} for line in text.split("\n")] for text in TEXTS]
    assert scores_of(component, chats) == scores_of(component, TEXTS)


def test_a_long_hostile_text_gets_a_score(component):
    for start, unit, end in HOSTILE:
        text = start + unit * (LONG // len(unit)) + end
        assert [type(score) for score in scores_of(component, [text])] == [float], (start, unit, end)
