"""Designs: the arms that they generate, and the configs that they refuse."""

import pytest
from pydantic import TypeAdapter

from reward_ablation.config.designs import Design, arms_here, expand

COMPONENTS = ["correctness", "format", "length"]
WEIGHTS = {"correctness": 1.0, "format": 0.5, "length": 0.25}


def arms_of(design, components=COMPONENTS, everywhere=None):
    everywhere = components if everywhere is None else everywhere
    arms = expand(TypeAdapter(Design).validate_python(design), components, everywhere)
    return {name: tuple(arm.weights.values()) for name, arm in arms.items()}


@pytest.mark.parametrize(
    ("design", "arms"),
    [
        ({"design": "list", "arms": {"a": {"weights": {"length": 1, "correctness": 2}}}}, {"a": (2, 0, 1)}),
        (
            {"design": "leave_one_out", "weights": {"correctness": 1, "format": 0.5}},
            {"full": (1, 0.5, 0), "no_correctness": (0, 0.5, 0), "no_format": (1, 0, 0)},
        ),
        (
            {"design": "one_at_a_time", "weights": WEIGHTS},
            {"only_correctness": (1, 0, 0), "only_format": (0, 0.5, 0), "only_length": (0, 0, 0.25)},
        ),
        (
            {"design": "factorial", "weights": {"correctness": 1, "length": 2}},
            {"correctness": (1, 0, 0), "length": (0, 0, 2), "correctness_length": (1, 0, 2)},
        ),
        (
            {"design": "simplex", "steps": 2, "components": ["correctness", "length"]},
            {"correctness2": (1, 0, 0), "correctness1_length1": (0.5, 0, 0.5), "length2": (0, 0, 1)},
        ),
    ],
)
def test_the_arms_of_a_design(design, arms):
    assert arms_of(design) == arms


@pytest.mark.parametrize("everywhere", [["format", "length"], []])
def test_what_scores_everywhere_neither_renames_nor_reorders_arms(everywhere):
    arms = ["correctness_format", "correctness_length", "format_length", "correctness_format_length"]
    found = arms_of({"design": "factorial", "weights": WEIGHTS}, everywhere=everywhere)
    assert list(found) == [*COMPONENTS, *arms]


def test_a_simplex_without_components_varies_those_that_score_everywhere():
    arms = arms_of({"design": "simplex", "steps": 1}, everywhere=["format", "length"])
    assert arms == {"format1": (0, 1, 0), "length1": (0, 0, 1)}


def test_simplex_covers_the_grid_once():
    arms = arms_of({"design": "simplex", "steps": 4})
    assert len(arms) == len(set(arms.values())) == 15  # (4 + 2 choose 2)
    assert all(sum(weights) == pytest.approx(1) for weights in arms.values())


@pytest.mark.parametrize(
    ("design", "message"),
    [
        ({"design": "list", "arms": {"a": {"weights": {"fromat": 1}}}}, "arms.arms.a.weights: unknown component 'from"),
        ({"design": "leave_one_out", "weights": {"format": 1, "x": 1}}, "arms.weights: unknown component 'x'"),
        ({"design": "simplex", "steps": 2, "components": ["format", "x"]}, "arms.components: unknown component 'x'"),
        ({"design": "list", "arms": {"a": {"weights": {"format": 0}}}}, "arms.arms.a.weights: all weights are 0"),
    ],
)
def test_refused(design, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        arms_of(design)


@pytest.mark.parametrize(
    ("design", "components", "message"),
    [
        ({"design": "factorial", "weights": {"a": 1, "b": 1, "a_b": 1}}, ["a", "b", "a_b"], "are both called a_b"),
        ({"design": "simplex", "steps": 12}, ["a", "a1", "b", "b1"], "of a1 and b are both called a11_b11"),
        ({"design": "simplex", "steps": 2}, [], "arms.components: missing, and its default, the components scored ev"),
    ],
)
def test_components_that_make_no_arms_or_two_of_one_name_are_refused(design, components, message):
    with pytest.raises(ValueError, match=message):
        arms_of(design, components)


def test_the_names_that_may_be_meant():
    assert arms_here("no_fromat", ["full", "no_format"]) == "arms here: full, no_format"
    told = "did you mean arm17 or arm217 or arm197? there are 300 arms, such as arm0, arm1, arm2"
    assert arms_here("arm_17", [f"arm{number}" for number in range(300)]) == told
