"""Methods on scores: parameters at which they equal GRPO, GDPO or static weights, and numbers calculated by hand."""

import numpy as np
import pytest

from combination.batches import BOUNDS, combine, made_up
from reward_ablation.system.errors import StudyError

NAMES = ("a", "b", "c")
WEIGHTS = np.array([1.0, 0.5, 2.0])


def run(method, parameters, scores, groups, weights=WEIGHTS, state=None, **context):
    defaults = {"names": NAMES[: scores.shape[1]], "bounds": BOUNDS[: scores.shape[1]]}
    return combine(method, parameters, scores, groups, np.asarray(weights), state or {}, **{**defaults, **context})


def one_group(*rows):
    return np.array(rows, float), np.zeros(len(rows), int)


def grpo(values):
    """Advantages of one group from its rewards."""
    values = np.asarray(values, float)
    return (values - values.mean()) / (values.std(ddof=1) + 1e-4)


TOKENS = np.full(48, 900)

LIMITS = [
    ("gate", {"b": {"needs": "a", "at_least": -1.0}, "aggregation": "normalize_then_sum"}, "gdpo"),
    ("schedule", {"b": {"0": 0.5, "7": 0.5}, "aggregation": "normalize_then_sum"}, "gdpo"),
    ("sa_mrpo", {"gamma": 0.0}, "gdpo"),
    ("gd2po", {"threshold": 0.0}, "gdpo"),
    ("ctwa", {"most": 1.0}, "weighted_sum"),
    ("lagrangian", {"at_least": {"b": 0.9}, "step_size": 0.0}, "weighted_sum"),
    ("laconic", {"budget": 900, "lowest": 0.0}, "weighted_sum"),
]


@pytest.mark.parametrize(("method", "parameters", "limit"), LIMITS)
def test_limits_are_bit_equal(method, parameters, limit):
    scores, groups = made_up()
    scores[5, 1] = np.nan
    scores[7] = np.nan
    expected = run(limit, {}, scores, groups).advantages
    first = run(method, parameters, scores, groups, tokens=TOKENS, step=3)
    second = run(method, parameters, scores, groups, state=first.state, tokens=TOKENS, step=3)
    np.testing.assert_array_equal(first.advantages, expected)
    np.testing.assert_array_equal(second.advantages, expected)


# --- gate


def test_gate_by_its_truth_table():
    scores, groups = one_group([1, 1], [1, 0], [0, 1], [0, 0], [np.nan, 1])
    found = run("gate", {"b": {"needs": "a", "at_least": 1}}, scores, groups, [1.0, 1.0])
    np.testing.assert_allclose(found.advantages.sum(axis=1), grpo([2, 1, 0, 0, 0]))


def test_a_gate_on_a_component_without_weight_and_another_value_than_zero():
    scores, groups = one_group([1, -1], [1, 0], [0, -1], [0, 0])
    parameters = {"b": {"needs": "a", "at_least": 1, "otherwise": -1}}
    found = run("gate", parameters, scores, groups, [0.0, 3.0])
    np.testing.assert_allclose(found.advantages, np.c_[np.zeros(4), grpo([-3, 0, -3, -3])])


def test_thresholds_of_a_gate_are_raw_scores_also_with_negative_weights():
    scores, groups = one_group([0.9, 5], [0.2, 5], [0.9, 1], [0.2, 1])
    parameters = {"b": {"needs": "a", "at_least": 0.5, "otherwise": 7}}
    found = run("gate", parameters, scores, groups, [-1.0, -0.1])
    np.testing.assert_allclose(found.advantages.sum(axis=1), grpo([-0.9 - 0.5, -0.2 - 0.7, -0.9 - 0.1, -0.2 - 0.7]))


# --- product and minimum


def test_product_takes_weights_as_exponents_and_ranges_of_the_config():
    scores, groups = one_group([4, 0.5], [2, 1.0], [3, 0.25], [0, 0.5])
    found = run(
        "product", {"ranges": {"a": [0, 4]}}, scores, groups, [3.0, 1.0], bounds=np.array([[np.nan] * 2, [0, 1]])
    )
    units = scores / [4, 1]
    np.testing.assert_allclose(found.advantages.sum(axis=1), grpo(units[:, 0] ** 1.5 * units[:, 1] ** 0.5))
    np.testing.assert_allclose(found.advantages[:, 0], found.advantages[:, 1])


def test_minimum_gives_the_advantage_to_the_worst_component():
    scores, groups = one_group([0.2, 0.9], [0.8, 0.4], [0.5, 0.5], [1, 1])
    found = run("minimum", {}, scores, groups, [1.0, 1.0])
    total = grpo([0.2, 0.4, 0.5, 1])
    np.testing.assert_allclose(
        found.advantages, np.array([[1, 0], [0, 1], [0.5, 0.5], [0.5, 0.5]]) * total[:, None], atol=1e-12
    )
    found = run("minimum", {}, scores[:3], groups[:3], [0.5, 1.5])  # weighs what is lacking
    np.testing.assert_allclose(found.advantages.sum(axis=1), grpo([-0.4, -0.9, -0.75]))


def test_a_completion_that_lacks_a_score_has_no_product_and_no_minimum():
    scores, groups = one_group([1, 1], [1, np.nan], [0, 1], [1, 0])
    for method in ("product", "minimum"):
        found = run(method, {}, scores, groups, [1.0, 1.0]).advantages.sum(axis=1)
        np.testing.assert_allclose(found[[0, 2, 3]], grpo([1, 0, 0]), atol=1e-12)
        assert found[1] == 0


@pytest.mark.parametrize("method", ["product", "minimum", "sa_mrpo", "saw"])
def test_a_range_that_is_not_known_is_asked_for(method):
    scores, groups = made_up()
    unknown = np.array([[0, 1], [np.nan, np.nan], [0, 1]])
    with pytest.raises(StudyError, match=r"^ranges: the range of 'b' is not known.*write ranges: \{b: \[lowest, high"):
        run(method, {}, scores, groups, bounds=unknown)
    known = run(method, {"ranges": {"b": [0, 1]}}, scores, groups, bounds=unknown)
    np.testing.assert_array_equal(known.advantages, run(method, {}, scores, groups).advantages)
    run(method, {}, scores, groups, [1.0, 0.0, 1.0], bounds=unknown)  # no weight, no need
    raw = run(method, {}, scores, groups, [1.0, -0.5, 1.0], bounds=np.array([[0, 1], [-1, 3], [0, 1]]))
    by_ranges = run(method, {"ranges": {"b": [-1, 3]}}, scores, groups, [1.0, -0.5, 1.0])
    np.testing.assert_array_equal(raw.advantages, by_ranges.advantages)
    below = run(method, {}, scores - [0, 2, 0], groups)  # of scores below their range no weight is negative
    assert below.weights is None or (below.weights >= 0).all()
    if method == "sa_mrpo":
        run(method, {"gamma": 0.0}, scores, groups, bounds=unknown)
    for wrong in ({"b": [1, 0]}, {"b": [0, 0]}, {"b": "01"}, {"b": 1}, {"d": [0, 1]}, [0, 1]):
        with pytest.raises(StudyError, match=r"^ranges"):
            run(method, {"ranges": wrong}, scores, groups, bounds=unknown)


# --- schedule


@pytest.mark.parametrize(("step", "weight"), [(0, 1.0), (25, 0.75), (50, 0.5), (75, 0.25), (100, 0.0), (900, 0.0)])
def test_a_schedule_is_piecewise_linear(step, weight):
    scores, groups = made_up()
    # keys as from YAML and as from JSON, in any order
    found = run("schedule", {"b": {"100": 0.0, 50: 0.5, "0": 1.0}}, scores, groups, step=step)
    np.testing.assert_allclose(found.weights, [1.0, weight, 2.0])
    expected = run("weighted_sum", {}, scores, groups, [1.0, weight, 2.0])
    np.testing.assert_allclose(found.advantages, expected.advantages, atol=1e-12)


def test_a_schedule_starts_a_component_that_has_no_weight_and_may_change_its_sign():
    scores, groups = made_up()
    alone = run("weighted_sum", {}, scores, groups, [1.0, 0.0, 0.0]).advantages
    parameters = {"b": {0: 0.0, 10: 0.5}, "c": {0: 0.0, 10: -1.0}}
    spoiled = np.where([False, True, True], np.nan, scores)
    np.testing.assert_array_equal(
        run("schedule", parameters, spoiled, groups, [1.0, 0, -1.0], step=0).advantages, alone
    )
    found = run("schedule", parameters, scores, groups, [1.0, 0, -1.0], step=10)
    np.testing.assert_array_equal(found.weights, [1.0, 0.5, -1.0])
    positive = run("schedule", parameters, scores, groups, [1.0, 0, 1.0], step=10)
    np.testing.assert_array_equal(found.advantages, positive.advantages)


# --- adaptive weights


def test_sa_mrpo_weighs_by_what_is_left():
    scores, groups = one_group([1, 0.2], [1, 0.4], [1, 0.6], [0, 0.8])
    found = run("sa_mrpo", {"gamma": 0.5}, scores, groups, [2.0, 1.0])
    np.testing.assert_allclose(found.weights, [2 * 0.25**0.5, 0.5**0.5])  # means 0.75 and 0.5
    np.testing.assert_allclose(found.advantages, run("gdpo", {}, scores, groups, found.weights).advantages)
    assert run("sa_mrpo", {}, np.ones((4, 2)), groups, [1.0, 1.0]).weights.tolist() == [0, 0]


@pytest.mark.parametrize("delta", [1e-8, 1.0])
def test_saw_weighs_by_the_coefficient_of_variation(delta):
    scores = np.array([[1, 0], [0, 0], [1, 0], [1, 1], [1, 0], [1, 0], [1, 1], [1, 0]], dtype=float)
    groups = np.arange(8) // 4
    found = run("saw", {"delta": delta}, scores, groups, [2.0, 1.0])
    variation = scores.std(0, ddof=1) / (scores.mean(0) + 2 * delta)
    np.testing.assert_allclose(found.weights, 2 * variation * [2, 1] / variation.sum(), rtol=1e-5)
    for aggregation, alike in {"normalize_then_sum": "gdpo", "sum_then_normalize": "weighted_sum"}.items():
        advantages = run("saw", {"delta": delta, "aggregation": aggregation}, scores, groups, [2.0, 1.0]).advantages
        np.testing.assert_allclose(advantages, run(alike, {}, scores, groups, found.weights).advantages)


def test_saw_with_equal_variation_or_none_leaves_the_weights():
    scores, groups = made_up()
    equal = scores[:, [1, 1]] * [1, 0.01]  # a factor does not matter
    np.testing.assert_allclose(run("saw", {}, equal, groups, [2.0, 1.0]).weights, [2, 1], rtol=1e-5)
    alike = np.tile([0.1, 0.3], (48, 1))  # rounding is no variation
    np.testing.assert_array_equal(run("saw", {}, alike, groups, [2.0, 1.0]).weights, [2, 1])


def test_dvao_is_the_weighted_sum_over_the_sum_of_deviations():
    scores, groups = made_up()
    found = run("dvao", {}, scores, groups, WEIGHTS).advantages.sum(axis=1).reshape(6, 8)
    rewards, grouped = (scores @ WEIGHTS).reshape(6, 8), scores.reshape(6, 8, 3)
    deviations = (grouped.std(axis=1, ddof=1) * WEIGHTS).sum(axis=1)
    np.testing.assert_allclose(found, (rewards - rewards.mean(1, keepdims=True)) / (deviations[:, None] + 1e-4))
    effective = grouped.std(1, ddof=1) * WEIGHTS / deviations[:, None]
    np.testing.assert_allclose(run("dvao", {}, scores, groups, WEIGHTS).weights, effective.mean(0))


def test_gd2po_keeps_what_one_component_clearly_decides():
    scores, groups = one_group([0, 0], [1, 1], [1, 0], [0, 1])
    # |3 - 1| / (3 + 1) = 0.5 for both completions in conflict
    kept = run("gd2po", {"threshold": 0.49}, scores, groups, [3.0, 1.0])
    np.testing.assert_array_equal(kept.advantages, run("gdpo", {}, scores, groups, [3.0, 1.0]).advantages)
    dropped = run("gd2po", {"threshold": 0.51}, scores, groups, [3.0, 1.0])
    assert (dropped.advantages[2:] == 0).all()
    assert kept.conflicts == dropped.conflicts == 0.5


def test_gd2po_weighs_groups_by_what_was_kept_before_it_standardises():
    first, second = [[0, 0], [1, 1], [1, 0], [0, 1]], [[0, 0], [0, 0], [1, 1], [1, 1]]
    scores, groups = np.array(first + second, float), np.repeat([0, 1], 4)
    found = run("gd2po", {"threshold": 1.0}, scores, groups, [1.0, 1.0]).advantages.sum(axis=1)
    sums = 2 * 0.5 / (np.sqrt(1 / 3) + 1e-4) * np.array([-0.5, 0.5, 0, 0, -1, -1, 1, 1])
    assert found == pytest.approx(sums / (sums[[0, 1, 4, 5, 6, 7]].std(ddof=1) + 1e-4))


def test_ctwa_against_a_loop():
    scores, groups = made_up(3)
    parameters = {"target_covariance": {"a": 0.5, "b": 0.3}, "reached_at": 0.9, "step_size": 0.2, "smoothing": 0.25}
    targets, log_weights, average, state = np.array([0.5, 0.3, 0.05]), np.log(WEIGHTS), None, {}
    for seed in range(4):
        scores, groups = made_up(seed)
        scores[:, 2] = 0.95 + scores[:, 2] / 100  # reached: its weight stays
        found = run("ctwa", parameters, scores, groups, state=state)
        state = found.state
        np.testing.assert_allclose(found.weights, np.exp(log_weights))
        expected = run("weighted_sum", {}, scores, groups, np.exp(log_weights)).advantages
        np.testing.assert_allclose(found.advantages, expected)
        covariance = np.zeros(3)
        for k in range(3):
            for g in range(6):
                r, a = scores[groups == g, k], expected[groups == g].sum(axis=1)
                covariance[k] += np.mean((r - r.mean()) * (a - a.mean())) / 6
        average = covariance if average is None else 0.75 * average + 0.25 * covariance
        log_weights = log_weights + 0.2 * np.maximum(0, targets - average) * (scores.mean(axis=0) < 0.9)
    assert found.weights[0] > 1.02  # a weight has grown
    assert found.weights[2] == WEIGHTS[2]


def test_a_negative_component_of_ctwa_grows_until_its_score_is_low_enough():
    scores, groups = made_up()
    scores[:, 2] *= 0.1  # its mean is 0.05
    parameters = {"target_covariance": 1.0, "step_size": 1.0}
    for reached_at, grows in [(0.01, True), (0.2, False)]:
        state = run("ctwa", {**parameters, "reached_at": {"c": reached_at}}, scores, groups, [1.0, 1.0, -1.0]).state
        assert (state["growth"]["c"] > 0) == grows


def test_a_component_of_ctwa_without_scores_keeps_its_weight_and_weights_have_a_limit():
    scores, groups = made_up()
    scores[:, 1] = np.nan
    parameters = {"target_covariance": 1.0, "reached_at": 2.0}
    state = run("ctwa", parameters, scores, groups).state
    assert state["growth"]["a"] > 0 == state["growth"]["b"]
    assert run("ctwa", parameters, *made_up(1), state=state).state["growth"]["b"] > 0
    limited = parameters | {"step_size": 1e9, "most": 20.0}
    state = run("ctwa", limited, *made_up()).state
    np.testing.assert_allclose(run("ctwa", limited, *made_up(), state=state).weights, 20 * WEIGHTS)


# --- constraints


def test_lagrangian_moves_the_multiplier_by_what_is_missing():
    scores, groups = made_up()
    parameters = {"at_least": {"b": 0.8}, "step_size": 0.5, "most": 0.3}
    state, expected = {}, 0.0
    for _ in range(4):
        found = run("lagrangian", parameters, scores, groups, [1.0, 0.0, 0.2], state=state)
        state, expected = found.state, min(0.3, expected + 0.5 * (0.8 - scores[:, 1].mean()))
        assert found.weights.tolist() == pytest.approx([1.0, expected, 0.2])
        assert found.state == {"multipliers": {"b": pytest.approx(expected)}}
        same = run("weighted_sum", {}, scores, groups, found.weights)
        np.testing.assert_array_equal(found.advantages, same.advantages)
    assert expected == 0.3  # at its limit
    met = {"at_least": {"b": 0.1}, "step_size": 10.0}
    assert run("lagrangian", met, scores, groups, [1.0, 0.7, 0.0]).state == {"multipliers": {"b": 0.0}}
    without = np.where([False, True, False], np.nan, scores)  # keeps its multiplier
    assert run("lagrangian", met, without, groups, [1.0, 0.7, 0.0], {"multipliers": {"b": 0.25}}).weights[1] == 0.25


def test_laconic_by_hand():
    scores, groups = one_group([1], [1], [0], [0])
    tokens = np.array([100, 300, 100, 200])
    parameters = {"budget": 100, "step_size": 0.1, "cap": 0.15, "lowest": 0.0, "highest": 1.0}
    first = run("laconic", parameters, scores, groups, [1.0], tokens=tokens)
    np.testing.assert_allclose(first.advantages[:, 0], grpo([1, 1, 0, 0]))  # no penalty yet
    assert first.state == {"multiplier": pytest.approx(0.1 * 0.75)}  # 175 tokens in the mean
    second = run("laconic", parameters, scores, groups, [1.0], state=first.state, tokens=tokens)
    np.testing.assert_allclose(second.advantages[:, 0], grpo([1, 1 - 0.15, 0, 0 - 0.075]))
    shorter = run("laconic", parameters, scores, groups, [1.0], state=second.state, tokens=tokens // 100)
    assert shorter.state["multiplier"] == pytest.approx(0.15 + 0.1 * (0.0175 - 1), abs=1e-3)
    last = run("laconic", parameters, scores, groups, [1.0], state=shorter.state, tokens=tokens // 100)
    assert last.state == {"multiplier": 0.0}


def test_the_penalty_of_laconic_is_divided_by_the_weights():
    scores = np.full((4, 2), 0.5)
    parameters = {"budget": 100, "cap": 1.0}
    state = {"multiplier": 0.1}
    tokens = np.array([100, 200, 300, 400])
    found = run("laconic", parameters, scores, np.zeros(4, int), [3.0, 1.0], state=state, tokens=tokens)
    total = grpo([0, -0.1, -0.2, -0.3])
    np.testing.assert_allclose(found.advantages, np.outer(total, [0.75, 0.25]), atol=1e-12)


@pytest.mark.parametrize(
    ("method", "parameters", "message"),
    [
        ("gate", {}, r"^gate: no component is gated; write length: \{needs: correctness, at_least: 1\}$"),
        ("gate", {"b": {"needs": "d", "at_least": 1}}, "^b.needs: unknown component 'd'; components here: a, b, c$"),
        ("gate", {"b": {"needs": "a"}}, "^b.at_least: missing"),
        ("gate", {"b": {"needs": "a", "at_least": 10**400}}, "^b.at_least: 10+ is not a finite number"),
        ("gate", {"b": {"needs": "a", "at_last": 1}}, "^b.at_last: unknown key; keys here: needs, at_least, other"),
        ("gate", {"b": "a"}, "^b: 'a' is not a mapping"),
        ("gate", {"b": {"needs": "a", "at_least": 1}, "aggregation": "sum"}, "^aggregation: 'sum' is unknown; write"),
        ("schedule", {"b": {0: 1}, "aggregation": "sum"}, "^aggregation: 'sum' is unknown; write"),
        ("saw", {"aggregation": 1}, "^aggregation: 1 is unknown; write"),
        ("schedule", {}, "^schedule: no component has a schedule"),
        ("schedule", {"b": {"soon": 1}}, "^b: 'soon' is not a step"),
        ("schedule", {"b": {-1: 1}}, "^b: -1 is not a"),
        ("schedule", {"b": {"1": 1, "1.0": 2}}, "^b: step 1.0 is written twice"),
        ("lagrangian", {}, "^at_least: None is not a mapping with entries"),
        ("lagrangian", {"at_least": {"a": 0.5}}, "^at_least: no component with a weight is left"),
        ("lagrangian", {"at_least": {"b": 1.5}}, "^at_least.b: 1.5 is above the highest score, 1; write less$"),
        ("lagrangian", {"at_least": {"c": 0.5}}, "^at_least.c: the component has a negative weight"),
        ("laconic", {"budget": 0}, "^budget: 0 is not above 0"),
        ("laconic", {"lowest": 2, "highest": 1}, "^lowest: 2 is above highest, 1"),
        ("drw", {"mu": 0}, "^mu: 0 is not above 0"),
        ("cagrad", {"c": float("nan")}, "^c: nan is not a number of at least 0"),
        ("sa_mrpo", {"gamma": -1}, "^gamma: -1 is not a number of at least 0"),
        ("saw", {"delta": 0}, "^delta: 0 is not above 0"),
        ("gd2po", {"threshold": 2}, "^threshold: 2 is not a number from 0 to 1"),
        ("ctwa", {"smoothing": 2}, "^smoothing: 2 is not"),
        ("ctwa", {"most": 0.5}, "^most: 0.5 is not a number of at least 1"),
        ("ctwa", {"reached_at": {"a": "x"}}, "^reached_at.a: 'x' is not"),
        ("weighted_sum", {"scale_rewards": "all"}, "^scale_rewards: 'all' is unknown; write one of group, batch, none"),
    ],
)
def test_wrong_parameters_are_refused_in_one_line(method, parameters, message):
    more = {"tokens": TOKENS, "step": 0, "gram": np.eye(3), "learning_rate": 1e-6}
    weights = [1.0, 0.0, -1.0 if "c" in str(parameters) else 0.0] if method == "lagrangian" else WEIGHTS
    with pytest.raises(StudyError, match=message) as caught:
        run(method, parameters, *made_up(), weights, **more)
    assert "\n" not in str(caught.value)
