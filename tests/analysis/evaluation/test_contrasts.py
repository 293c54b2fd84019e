"""Effects from given results of arms, against effects by hand."""

from itertools import combinations

import numpy as np
import pytest

from reward_ablation.analysis.evaluation.effects import LACK_OF_FIT, MOST_CONTRASTS, Effect, effects, reach
from reward_ablation.analysis.study_file import BASE


def factorial(names: str, weight: float = 1.0) -> dict[str, dict[str, float]]:
    subsets = [subset for size in range(1, len(names) + 1) for subset in combinations(names, size)]
    return {"".join(subset): {name: weight * (name in subset) for name in names} for subset in subsets}


def values(found: list[Effect], method: str, results: dict[str, float]) -> dict[str, float]:
    return {
        effect.component: sum(c * results[arm] for arm, c in effect.coefficients.items())
        for effect in found
        if effect.method == method
    }


# a alone 14, b alone 12, both 19, the control 11; by hand.
RESULTS = {"a": 14.0, "b": 12.0, "ab": 19.0, "random": 11.0}


@pytest.mark.parametrize(
    ("design", "control", "method", "expected"),
    [
        ("factorial", None, "main_effect", {"a": 7, "b": 5}),  # beside the other component
        ("factorial", "random", "main_effect", {"a": 5, "b": 3}),  # the means of 7 and 14 - 11, and of 5 and 12 - 11
        ("leave_one_out", "random", "leave_one_out", {"a": 7, "b": 5}),
        ("one_at_a_time", "random", "over_control", {"a": 3, "b": 1}),
        ("list", None, "leave_one_out", {"a": 7, "b": 5}),
    ],
)
def test_a_study_has_the_effects_of_its_design_and_no_others(design, control, method, expected):
    found = effects(factorial("ab"), ["a", "b"], design, control)
    assert {effect.method for effect in found} == {method}
    assert values(found, method, RESULTS) == pytest.approx(expected)
    assert not any(BASE in effect.coefficients for effect in found)


@pytest.mark.parametrize(
    ("design", "control", "arms", "components"),
    [
        ("one_at_a_time", None, {"a": (1, 0), "b": (0, 1)}, ""),  # alone, without a control
        ("one_at_a_time", "random", {"one": (1, 0), "two": (2, 0), "other": (0, 1)}, "b"),  # a at two weights
        ("one_at_a_time", "random", {"a": (1, 0)}, "a"),  # no arm is trained on b
        ("leave_one_out", None, {"full": (1, 2), "no_a": (0, 1), "no_b": (1, 0)}, "b"),  # no_a has another b
        ("factorial", None, {"a": (1, 0), "b": (0, 1)}, ""),  # a subset is missing
        ("simplex", None, {"one": (1.2, -0.2), "two": (0.8, 0.2), "three": (1, 0)}, ""),  # a negative weight
        ("simplex", None, {"one": (1, 0.5), "two": (1, 2)}, ""),  # a line through two points fits whatever comes
    ],
)
def test_components_without_an_effect_of_their_own(design, control, arms, components):
    weights = {arm: dict(zip("ab", map(float, of_arm), strict=True)) for arm, of_arm in arms.items()}
    assert "".join(effect.component for effect in effects(weights, ["a", "b"], design, control)) == components


def test_a_list_has_the_effects_that_its_arms_allow():
    arms = factorial("abc")
    del arms["bc"]
    assert effects(arms, list("abc"), "factorial") == []
    assert [effect.component for effect in effects(arms, list("abc"), "list")] == ["b", "c"]  # no arm without a


def test_main_effects_are_means_over_the_sets_of_other_components():
    results = {"a": 1.0, "b": 2.0, "c": 3.0, "ab": 5.0, "ac": 6.0, "bc": 7.0, "abc": 11.0}
    found = values(effects(factorial("abc"), list("abc"), "factorial"), "main_effect", results)
    assert found["a"] == pytest.approx(((5 - 2) + (6 - 3) + (11 - 7)) / 3)


def test_contrasts_of_lack_of_fit_are_0_where_the_model_holds():
    weights = [(1, 0, 0), (0, 1, 0), (0, 0, 1), (0.5, 0.5, 0), (0, 0.5, 0.5), (0.5, 0, 0.5), (0.4, 0.3, 0.3)]
    arms = {str(w): dict(zip("abc", map(float, w), strict=True)) for w in weights}
    found = [*effects(arms, list("abc"), "simplex"), *effects(dict([*arms.items()][:6]), list("abc"), "simplex")]
    straight = {arm: 6 * w["a"] + 3 * w["b"] for arm, w in arms.items()}
    bent = {arm: straight[arm] + 4 * w["a"] * w["b"] for arm, w in arms.items()}

    def lack(method, results):
        return [value for name, value in values(found, method, results).items() if name.startswith(LACK_OF_FIT)]

    assert len(lack("regression", straight)) == 3  # six arms, three coefficients
    assert len(lack("quadratic_regression", straight)) == 1
    assert max(map(abs, lack("regression", straight))) < 1e-12
    assert max(map(abs, lack("regression", bent))) > 0.1
    assert max(map(abs, lack("quadratic_regression", bent))) < 1e-12
    # Scheffé's model with coefficients 6, 3, 0: effects 6 - 1.5, 3 - 3, 0 - 4.5; with the product those of a and b too.
    linear = values(found, "regression", straight)
    assert [linear[name] for name in "abc"] == pytest.approx([4.5, 0, -4.5])
    quadratic = values(found, "quadratic_regression", bent)
    assert (quadratic["a"], quadratic["b"]) == (pytest.approx(4.5), pytest.approx(0))


def test_a_common_factor_of_an_arms_weights_does_not_count():
    # Least squares on shares (1, 0), (0, 1), (1/2, 1/2) of .6, .2, .5: the middle is .1 high, .0333 of it for each end.
    arms = {"c": {"c": 1.0, "f": 0.0}, "f": {"c": 0.0, "f": 1.0}, "both": {"c": 4.0, "f": 4.0}}
    found = values(effects(arms, ["c", "f"], "simplex"), "regression", {"c": 0.6, "f": 0.2, "both": 0.5})
    assert {name: found[name] for name in "cf"} == pytest.approx({"c": 0.4, "f": -0.4})


def test_an_arm_without_a_part_in_an_effect_has_no_rest_of_rounding():
    arms = {f"m{n}": {"a": n / 4, "b": 1 - n / 4} for n in range(5)}
    assert effects(arms, ["a", "b"], "simplex")[0].coefficients["m2"] == 0


def test_reach_of_an_effect_on_a_share():
    assert reach(Effect("main_effect", "a", {"x": 0.5, "y": -0.5, "z": 0.25})) == (-0.5, 0.75)


def test_contrasts_of_lack_of_fit_are_bounded():
    weights = np.random.default_rng(0).dirichlet(np.ones(3), 150)
    arms = {f"arm{n}": dict(zip("abc", map(float, row), strict=True)) for n, row in enumerate(weights)}
    missed = [effect for effect in effects(arms, list("abc"), "simplex") if effect.component.startswith(LACK_OF_FIT)]
    assert len(missed) == MOST_CONTRASTS
