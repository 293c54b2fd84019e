"""Effects from given results of arms, against effects by hand."""

from itertools import combinations

import pytest

from reward_ablation.analysis.statistics.contrasts import BASE, LACK_OF_FIT, Effect, effects, reach


def factorial(names: str, weight: float = 1.0) -> dict[str, dict[str, float]]:
    subsets = [subset for size in range(1, len(names) + 1) for subset in combinations(names, size)]
    return {"".join(subset): {name: weight * (name in subset) for name in names} for subset in subsets}


def values(found: list[Effect], method: str, results: dict[str, float]) -> dict[str, float]:
    return {
        effect.component: sum(c * results[arm] for arm, c in effect.coefficients.items())
        for effect in found
        if effect.method == method
    }


# Base 10, a adds 4, b adds 2, both together 3 more; by hand.
RESULTS = {BASE: 10.0, "a": 14.0, "b": 12.0, "ab": 19.0}


def test_effects_of_two_components():
    found = effects(factorial("ab"), ["a", "b"], regress=False)
    assert values(found, "main_effect", RESULTS) == {"a": 5.5, "b": 3.5}  # (14 + 19) / 2 - (10 + 12) / 2
    assert values(found, "interaction", RESULTS) == {"a:b": 1.5}  # half of (19 - 12) - (14 - 10)
    assert values(found, "shapley", RESULTS) == {"a": 5.5, "b": 3.5}
    assert values(found, "leave_one_out", RESULTS) == {"a": 7, "b": 5}
    assert values(found, "one_at_a_time", RESULTS) == {"a": 4, "b": 2}
    assert values(found, "regression", RESULTS) == {}


def test_shapley_values_of_the_glove_game():
    # One has a left glove, two have a right one each, a pair is worth 1: the known values are 2/3, 1/6, 1/6.
    arms = factorial("lrs")
    results = {BASE: 0.0} | {arm: float("l" in arm and len(arm) > 1) for arm in arms}
    shapley = values(effects(arms, ["l", "r", "s"], regress=False), "shapley", results)
    assert shapley == pytest.approx({"l": 2 / 3, "r": 1 / 6, "s": 1 / 6})


def test_shapley_values_add_up_to_all_components_minus_the_base_model():
    arms = factorial("abcd")
    results = {arm: float(place**2) for place, arm in enumerate([BASE, *arms])}
    shapley = values(effects(arms, list("abcd"), regress=False), "shapley", results)
    assert sum(shapley.values()) == pytest.approx(results["abcd"] - results[BASE])


def test_a_missing_subset_leaves_no_factorial_effects():
    arms = factorial("abc")
    del arms["bc"]
    found = effects(arms, list("abc"), regress=False)
    assert {effect.method for effect in found} == {"leave_one_out", "one_at_a_time"}
    assert [effect.component for effect in found if effect.method == "leave_one_out"] == ["b", "c"]  # no arm without a


def test_leaving_out_is_compared_at_equal_weights():
    arms = {"full": {"a": 1.0, "b": 2.0}, "no_a": {"a": 0.0, "b": 1.0}, "no_b": {"a": 1.0, "b": 0.0}}
    found = effects(arms, ["a", "b"], regress=False)
    assert [effect.component for effect in found if effect.method == "leave_one_out"] == ["b"]  # no_a has another b


def test_a_component_alone_at_two_weights_has_no_effect_of_its_own():
    arms = {"one": {"a": 1.0, "b": 0.0}, "two": {"a": 2.0, "b": 0.0}, "other": {"a": 0.0, "b": 1.0}}
    found = effects(arms, ["a", "b"], regress=False)
    assert [(effect.method, effect.component) for effect in found] == [("one_at_a_time", "b")]


def test_components_that_no_arm_is_trained_on_have_no_effect():
    found = effects({"a": {"a": 1.0, "tracked": 0.0}}, ["a", "tracked"], regress=False)
    assert {effect.component for effect in found} == {"a"}


def test_effects_in_a_mixture():
    # Scheffé's model with coefficients 6, 3, 0: effects 6 - 1.5, 3 - 3, 0 - 4.5.
    weights = [(1, 0, 0), (0, 1, 0), (0, 0, 1), (0.5, 0.5, 0), (0, 0.5, 0.5), (0.5, 0, 0.5)]
    arms = {str(w): dict(zip("abc", map(float, w), strict=True)) for w in weights}
    results = {arm: 6 * w["a"] + 3 * w["b"] for arm, w in arms.items()}
    found = values(effects(arms, list("abc"), regress=True), "regression", results)
    assert {name: found[name] for name in "abc"} == pytest.approx({"a": 4.5, "b": 0, "c": -4.5})


def test_contrasts_of_lack_of_fit_are_0_where_the_model_holds():
    weights = [(1, 0, 0), (0, 1, 0), (0, 0, 1), (0.5, 0.5, 0), (0, 0.5, 0.5), (0.5, 0, 0.5), (0.4, 0.3, 0.3)]
    arms = {str(w): dict(zip("abc", map(float, w), strict=True)) for w in weights}
    found = effects(arms, list("abc"), regress=True)
    straight = {arm: 6 * w["a"] + 3 * w["b"] for arm, w in arms.items()}
    bent = {arm: straight[arm] + 4 * w["a"] * w["b"] for arm, w in arms.items()}

    def lack(method, results):
        return [value for name, value in values(found, method, results).items() if name.startswith(LACK_OF_FIT)]

    assert len(lack("regression", straight)) == 4  # seven arms, three coefficients
    assert len(lack("quadratic_regression", straight)) == 1
    assert max(map(abs, lack("regression", straight))) < 1e-12
    assert max(map(abs, lack("regression", bent))) > 0.1
    assert max(map(abs, lack("quadratic_regression", bent))) < 1e-12
    # With the product, a alone has 6 and b and c in equal parts 1.5; b alone has 3, a and c 3.
    quadratic = values(found, "quadratic_regression", bent)
    assert (quadratic["a"], quadratic["b"]) == (pytest.approx(4.5), pytest.approx(0))


def test_a_component_alone_is_compared_with_the_control_too():
    arms = {"c": {"c": 1.0, "f": 0.0}, "f": {"c": 0.0, "f": 1.0}}
    results = {BASE: 0.1, "random": 0.3, "c": 0.8, "f": 0.4}
    found = effects(arms, ["c", "f"], regress=False, control="random")
    assert values(found, "one_at_a_time", results) == pytest.approx({"c": 0.7, "f": 0.3})
    assert values(found, "over_control", results) == pytest.approx({"c": 0.5, "f": 0.1})


@pytest.mark.parametrize("factor", [0.5, 1, 4])
def test_a_common_factor_of_an_arms_weights_does_not_count(factor):
    # Least squares on shares (1, 0), (0, 1), (1/2, 1/2) of .6, .2, .5: the middle is .1 high, .0333 of it for each end.
    arms = {"c": {"c": 1.0, "f": 0.0}, "f": {"c": 0.0, "f": 1.0}, "both": {"c": factor, "f": factor}}
    found = values(effects(arms, ["c", "f"], regress=True), "regression", {"c": 0.6, "f": 0.2, "both": 0.5})
    assert {name: found[name] for name in "cf"} == pytest.approx({"c": 0.4, "f": -0.4})


def test_negative_weights_are_not_regressed_on():
    arms = {"one": {"a": 1.2, "b": -0.2}, "two": {"a": 0.8, "b": 0.2}, "three": {"a": 1.0, "b": 0.0}}
    assert values(effects(arms, ["a", "b"], regress=True), "regression", dict.fromkeys(arms, 1.0)) == {}


def test_too_few_arms_to_regress_on():
    arms = {"one": {"a": 1.0, "b": 0.5}, "two": {"a": 1.0, "b": 2.0}}  # a line through two points fits whatever comes
    assert effects(arms, ["a", "b"], regress=True) == []


def test_reach_of_an_effect_on_a_share():
    assert reach(Effect("shapley", "a", {"x": 0.5, "y": -0.5, "z": 0.25})) == (-0.5, 0.75)
