"""Properties of every method: shapes, groups, dead groups, one component, hostile scores."""

import json
import warnings

import numpy as np
import pytest

from combination.batches import PARAMETERS, combine, context, made_up
from reward_ablation.combination.load import arguments_of_method, check, load_method, method_names
from reward_ablation.system.errors import StudyError

METHODS = method_names()
ONE = np.ones(3)


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def run(method, scores, groups, weights=ONE, state=None, **changes):
    return combine(method, PARAMETERS.get(method, {}), scores, groups, weights, state or {}, **{**context(), **changes})


@pytest.mark.parametrize("method", METHODS)
def test_every_method_says_its_source_or_formula_and_its_parameters(method):
    text, parameters = load_method(method).__doc__, arguments_of_method(method).parameters
    assert "``" in text.splitlines()[0]  # a formula
    assert "Source" in text or "Kimi" in text
    assert [name for name in parameters if name not in text.split("Parameters\n", 1)[1]] == []


@pytest.mark.parametrize("method", METHODS)
def test_every_group_has_mean_zero_or_the_batch_has(method):
    scores, groups = made_up()
    found = run(method, scores, groups)
    assert found.advantages.shape == scores.shape
    assert found.advantages.sum() == pytest.approx(0, abs=1e-9)
    assert np.abs(found.advantages.sum(axis=1)).max() > 0.1
    assert found.weights is None or found.weights.shape == (3,)
    json.dumps(found.state, allow_nan=False)
    assert np.isfinite(run(method, scores, np.arange(48)).advantages).all()  # groups of one completion


@pytest.mark.parametrize("method", METHODS)
def test_the_order_of_groups_and_of_completions_does_not_matter(method):
    scores, groups = made_up()
    tokens = np.arange(48) * 20
    order = np.concatenate([g * 8 + np.random.default_rng(g).permutation(8) for g in [3, 1, 5, 0, 4, 2]])
    before = run(method, scores, groups, tokens=tokens, state=run(method, scores, groups, tokens=tokens).state)
    state = run(method, scores[order], groups[order], tokens=tokens[order]).state
    after = run(method, scores[order], groups[order], tokens=tokens[order], state=state)
    np.testing.assert_allclose(after.advantages, before.advantages[order], atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_a_group_without_differences_has_no_advantage(method):
    scores, groups = made_up()
    scores[:8] = 0.3
    assert np.abs(run(method, scores, groups).advantages[:8].sum(axis=1)).max() < 1e-9
    scores[:] = 0.1
    found = run(method, scores, groups, tokens=np.full(48, 400))
    assert (found.advantages == 0).all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "spoil",
    [
        lambda scores: scores * 1e30,
        lambda scores: np.where(np.arange(3) == 1, np.nan, scores),
        lambda scores: np.where(np.arange(48)[:, None] % 5 == 0, np.nan, scores),
        lambda scores: scores * np.nan,
        lambda scores: scores - 1e6,
    ],
    ids=["huge", "no score of a component", "rows", "no score", "below bounds"],
)
def test_hostile_scores_give_finite_advantages(method, spoil):
    scores, groups = made_up()
    spoiled = spoil(scores)
    first = run(method, spoiled, groups)
    for found in [first, run(method, spoiled, groups, state=first.state)]:
        assert np.isfinite(found.advantages).all()
        # weights first: two components of one group may nearly cancel
        assert np.abs(found.advantages.sum(axis=1)).max() < 100
        assert (found.advantages[np.isnan(spoiled).all(axis=1)] == 0).all()


@pytest.mark.parametrize("method", sorted(set(METHODS) - set(PARAMETERS)))
def test_a_component_without_a_weight_changes_nothing(method):
    scores, groups = made_up()
    weights = np.array([1.0, 0.5, 0.0])
    spoiled = scores.copy()
    spoiled[:, 2] = np.nan
    found = run(method, scores, groups, weights)
    alone = run(method, scores[:, :2], groups, weights[:2], **{**context(2), "gram": context()["gram"][:2, :2]})
    np.testing.assert_array_equal(found.advantages[:, :2], alone.advantages)
    np.testing.assert_array_equal(found.advantages, run(method, spoiled, groups, weights).advantages)
    assert (found.advantages[:, 2] == 0).all()


# The numbers in the parameters of the other methods are raw scores. These methods have their own tests.
@pytest.mark.parametrize("method", sorted(set(METHODS) - set(PARAMETERS)))
def test_a_negative_weight_is_the_same_as_the_negative_component(method):
    scores, groups = made_up()
    negative, weights = np.array([1.0, 1.0, -1.0]), np.array([1.0, 0.7, -0.4])
    mirrored = context()
    mirrored["gram"] = mirrored["gram"] * np.outer(negative, negative)
    mirrored["bounds"] = np.array([[0.0, 1.0], [0.0, 1.0], [-1.0, 0.0]])
    parameters = {"reached_at": {"c": -0.95}} if method == "ctwa" else {}
    before = combine(method, parameters, scores * negative, groups, np.abs(weights), {}, **mirrored)
    parameters = {"reached_at": {"c": 0.95}} if method == "ctwa" else {}
    after = combine(method, parameters, scores, groups, weights, {}, **context())
    np.testing.assert_array_equal(after.advantages, before.advantages)
    if after.weights is not None:
        np.testing.assert_array_equal(after.weights, before.weights * negative)


@pytest.mark.parametrize("method", METHODS)
def test_planning_takes_each_method_with_its_parameters(method):
    check(method, PARAMETERS.get(method, {}), "abc", [1.0, 0.5, -0.1], context()["bounds"])
    with pytest.raises(StudyError, match=r"^gama: unknown (parameter of the method|component)"):
        check(method, {**PARAMETERS.get(method, {}), "gama": 1}, "abc", ONE, context()["bounds"])
