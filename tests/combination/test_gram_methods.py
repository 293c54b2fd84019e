"""Methods on Gram matrices, against torchjd's weights, their defining equations, and cases that must not change."""

import json
from pathlib import Path

import numpy as np
import pytest

from combination.batches import combine, made_up, made_up_gram
from reward_ablation.combination.gram_weights import live_components
from reward_ablation.combination.normalisation import z_scores
from reward_ablation.combination.of_run import gram_of, with_step
from reward_ablation.system.errors import StudyError

#: Weights by torchjd 0.18.0 and its solvers (quadprog, ecos), from Gram matrices of trace K, to absolute tolerances of
#: 1e-9 and better; for PCGrad the mean over all orders. Both ranks and 1 to 6 gradients are among the cases.
CASES = json.loads(Path(__file__).with_name("torchjd_weights.json").read_text())
RULES = ["cagrad", "mgda", "nash_mtl", "pcgrad", "upgrad"]
SCALES = [1e-12, 1.0]
GRADIENT = np.array([1.0, 2.0, -1.0])
LENGTHS = np.array([1.0, 1e-5, 1e3])


def weights_by(method, gram, weights=None, parameters=None, **context):
    """Multipliers of a method for preferences that sum to 1, without rescaling."""
    gram = np.asarray(gram, float)
    count = len(gram)
    weights = np.full(count, 1 / count) if weights is None else np.asarray(weights, float)
    scores, groups = made_up(components=count)
    found = combine(
        method,
        {"rescale": False, **(parameters or {})},
        scores,
        groups,
        weights,
        {},
        names="abcdefgh"[:count],
        gram=gram,
        **{"step": 1, "learning_rate": 1e-6, **context},
    )
    np.testing.assert_allclose(found.advantages, z_scores(scores, groups, 1e-4) * found.weights, rtol=1e-12)
    return found.weights


@pytest.mark.parametrize("scale", SCALES)
def test_weights_are_those_of_torchjd(scale):
    for case in CASES:
        gram, by_torchjd = np.array(case["gram"]), {name: np.array(found) for name, found in case["weights"].items()}
        found = {name: weights_by(name, scale * gram) for name in by_torchjd if name in RULES}
        preferences = np.arange(1, len(gram) + 1) / np.arange(1, len(gram) + 1).sum()
        # torchjd adds 1e-10 to the diagonal
        np.testing.assert_allclose(found["upgrad"], by_torchjd["upgrad"], rtol=1e-4)
        preferred = weights_by("upgrad", scale * gram, preferences)
        np.testing.assert_allclose(preferred, by_torchjd["upgrad_preferences"], rtol=1e-4)
        of_all_orders = len(gram) <= 5  # else of a hundred of them
        np.testing.assert_allclose(found["pcgrad"], by_torchjd["pcgrad"], rtol=1e-7 if of_all_orders else 0.15)
        gram /= np.trace(gram) / len(gram)
        length, other = (each @ gram @ each for each in (found["mgda"], by_torchjd["mgda"]))
        assert other - 1e-3 < length < other + 1e-9
        assert found["mgda"].sum() == pytest.approx(1)
        if by_torchjd["cagrad"].any():  # torchjd gives up at a Pareto stationary point
            # weights of gradients of low rank are not unique; the direction is
            np.testing.assert_allclose(gram @ found["cagrad"], gram @ by_torchjd["cagrad"], atol=2e-4)
        if "nash_mtl" in found:
            own, theirs = (each / each.sum() for each in (found["nash_mtl"], by_torchjd["nash_mtl"]))
            np.testing.assert_allclose(own, theirs, rtol=2e-2)  # theirs is rough


def test_unequal_weights_of_nash_mtl_are_bargaining_powers():
    gram = made_up_gram(3)
    found = weights_by("nash_mtl", gram, [0.5, 0.3, 0.2])
    products = found * (gram @ found)
    np.testing.assert_allclose(products / products.sum(), [0.5, 0.3, 0.2], rtol=1e-6)


@pytest.mark.parametrize("method", ["mgda", "upgrad", "nash_mtl"])
@pytest.mark.parametrize("count", [2, 8])
def test_no_component_is_harmed_to_first_order(method, count):
    for seed in range(5):
        gram = made_up_gram(count, seed, rank=count + 1)
        weights = np.random.default_rng(seed).uniform(0.1, 2, count)
        found = weights_by(method, gram, weights)
        found /= np.abs(found).sum()
        assert (gram @ found).min() > -1e-9 * np.trace(gram)


def test_a_larger_weight_asks_mgda_for_more_progress():
    weights = np.array([0.6, 0.4])
    gram = np.array([[1.0, -0.3], [-0.3, 2.0]])
    progress = gram @ weights_by("mgda", gram, weights)
    assert progress[0] / progress[1] == pytest.approx(1.5)


@pytest.mark.parametrize(("method", "parameters"), [("cagrad", {"c": 0.0}), ("drw", {"mu": 1e30})])
def test_parameters_that_leave_the_weights_as_they_are(method, parameters):
    weights = [0.5, 1.0, 0.3]
    np.testing.assert_allclose(weights_by(method, made_up_gram(), weights, parameters), weights, rtol=1e-12)


def rescaled(method, gram, weights, **parameters):
    scores, groups = made_up(components=len(weights))
    context = {"names": "abcdefgh"[: len(weights)], "gram": gram, "step": 1, "learning_rate": 1e-6}
    return combine(method, parameters, scores, groups, np.array(weights), {}, **context)


@pytest.mark.parametrize("method", [*RULES, "drw"])
def test_the_sizes_of_the_weights_keep_their_sum(method):
    gram = made_up_gram(3, 1)
    found = rescaled(method, gram, [1.0, -0.5, 0.25])
    assert np.abs(found.weights).sum() == pytest.approx(1.75)
    own = rescaled(method, gram, [1.0, -0.5, 0.25], rescale=False)
    np.testing.assert_allclose(found.weights / np.abs(found.weights).sum(), own.weights / np.abs(own.weights).sum())
    assert rescaled(method, None, [1.0, -0.5, 0.25]).weights.tolist() == [1.0, -0.5, 0.25]  # no Gram matrix yet
    assert rescaled(method, np.zeros((3, 3)), [1.0, -0.5, 0.25]).weights.tolist() == [1.0, -0.5, 0.25]


@pytest.mark.parametrize("method", RULES)
def test_a_component_without_a_gradient_keeps_its_weight_and_is_not_in_the_rule(method):
    gram = made_up_gram(3, 1)
    with_zero = np.zeros((4, 4))
    with_zero[np.ix_([0, 1, 3], [0, 1, 3])] = gram
    with_zero[2, 2] = 1e-14  # rounding
    found = rescaled(method, with_zero, [1.0, 0.5, 0.7, 2.0])
    assert found.weights[2] == pytest.approx(0.7)
    without = rescaled(method, gram, [1.0, 0.5, 2.0])
    np.testing.assert_allclose(found.weights[[0, 1, 3]], without.weights, rtol=1e-9)
    assert found.conflicts == without.conflicts


@pytest.mark.parametrize("method", RULES)
@pytest.mark.parametrize(
    "gram",
    [
        1e-6 * GRADIENT @ GRADIENT * np.array([[1, -1], [-1, 1]]),
        made_up_gram(3, 2) * np.outer(LENGTHS, LENGTHS),
        np.array([[1.0, -2.0, 0.1], [-2.0, 1.0, 0.1], [0.1, 0.1, 0.5]]),
    ],
    ids=["gradients that cancel", "lengths that differ by a million", "an indefinite estimate"],
)
def test_gram_matrices_on_the_edge_give_finite_weights(method, gram):
    found = rescaled(method, gram, np.ones(len(gram)).tolist())
    assert np.isfinite(found.weights).all()
    assert found.weights.min() > -1e-9 or len(gram) == 3


def test_pcgrad_of_many_components_is_decided_by_the_step():
    gram = made_up_gram(8, 3, rank=8)
    first = weights_by("pcgrad", gram, step=3)
    np.testing.assert_array_equal(first, weights_by("pcgrad", gram, step=3))
    assert (first != weights_by("pcgrad", gram, step=4)).any()


def test_cagrad_maximises_the_least_gain_in_its_ball():
    generator = np.random.default_rng(0)
    gradients = generator.standard_normal((3, 4))
    gradients[1] -= gradients[0]
    weights, c = np.array([0.5, 0.3, 0.2]), 0.4
    found = weights_by("cagrad", gradients @ gradients.T, weights, {"c": c}) @ gradients
    mean = weights @ gradients
    radius = c * np.linalg.norm(mean)
    assert np.linalg.norm(found - mean) == pytest.approx(radius, rel=1e-6)
    others = generator.standard_normal((200_000, 4))
    others = mean + radius * others / np.linalg.norm(others, axis=1, keepdims=True)
    best = (others @ gradients.T).min(axis=1).max()
    assert best - 1e-9 <= (gradients @ found).min() < best + 0.02


def test_conflicts_are_pairs_of_gradients_that_oppose_each_other():
    gram = np.array([[1.0, -0.5, 0.2, 0], [-0.5, 1.0, 0.1, 0], [0.2, 0.1, 1.0, 0], [0, 0, 0, 0]])
    assert rescaled("upgrad", gram, [1.0] * 4).conflicts == pytest.approx(1 / 3)
    assert rescaled("upgrad", gram, [1.0, -1.0, 1.0, 1.0]).conflicts == pytest.approx(1 / 3)  # then b against c
    assert rescaled("upgrad", None, [1.0] * 4).conflicts is None
    assert live_components(gram, np.array([0.0, 1, 1, 1])).tolist() == [False, True, True, False]


def drw(gram, weights, state=None, **parameters):
    scores, groups = made_up(components=len(weights))
    learning_rate = parameters.pop("learning_rate", 1e-3)
    context = {"names": "abcdefgh"[: len(weights)], "gram": gram, "learning_rate": learning_rate}
    return combine("drw", parameters, scores, groups, np.array(weights), state or {}, **context)


def test_drw_by_hand():
    gram = np.array([[4.0, -1.0], [-1.0, 2.0]])
    # row sums 3 and 1, times 1e-3 / 0.01
    first = drw(gram, [1.0, 1.0], mu=0.01)
    expected = 2 * np.exp([0.3, 0.1]) / np.exp([0.3, 0.1]).sum()
    np.testing.assert_allclose(first.weights, expected)
    assert first.state["largest_step"] == pytest.approx(0.3)
    second = drw(gram, [1.0, 1.0], first.state, mu=0.01)
    np.testing.assert_allclose(second.weights, 2 * np.exp([0.6, 0.2]) / np.exp([0.6, 0.2]).sum())
    waiting = drw(None, [1.0, 1.0], second.state, mu=0.01)
    np.testing.assert_allclose(waiting.weights, second.weights)
    unequal = drw(gram, [3.0, 1.0], mu=0.01)
    np.testing.assert_allclose(unequal.weights, 4 * np.exp([0.3, 0.1]) * [3, 1] / (np.exp([0.3, 0.1]) @ [3, 1]))


def test_large_changes_of_drw_are_scaled_down_and_stay_finite():
    gram = np.array([[4.0, -1.0], [-1.0, 2.0]])
    found = drw(gram, [1.0, 1.0], mu=1e-9, most=0.6)
    np.testing.assert_allclose(found.weights, 2 * np.exp([0.6, 0.2]) / np.exp([0.6, 0.2]).sum())
    assert found.state["largest_step"] == pytest.approx(3e6)
    state = {}
    for _ in range(200):
        state = drw(gram, [1.0, 1.0], state, mu=1e-9).state
    np.testing.assert_allclose(drw(gram, [1.0, 1.0], state, mu=1e-9).weights, [2, 0], atol=1e-12)


def test_a_gram_matrix_that_is_not_finite_is_refused():
    with pytest.raises(StudyError, match=r"^upgrad: the Gram matrix of the components' gradients is not finite"):
        rescaled("upgrad", np.array([[1.0, np.nan], [np.nan, 1.0]]), [1.0, 1.0])


def test_an_average_of_equal_steps_is_the_step_however_few_there_are():
    """In the scale of mean squared length 1, which makes it the same for gradients of any length."""
    total, state = np.array([[2.0, 1.0], [1.0, 4.0]]), {}
    for step in range(3):
        state = with_step(state, step, total * 10**step, total, "averaged")
        assert gram_of(state, "averaged") == pytest.approx(total / 3)
    assert state["steps"] == 3
