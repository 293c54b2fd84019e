"""Looks of sequential studies: boundaries against published tables, and the decisions by them."""

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from analysis.made_up import MadeUpStudy
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.design.looks import (
    SPENDING,
    Measured,
    Plan,
    boundaries,
    corrected,
    level_reached,
    measured_contrasts,
    next_look,
)
from reward_ablation.study.looks import Sequential
from reward_ablation.study.primary import Contrast


# Reboussin, DeMets, Kim and Lan, "Computations for group sequential boundaries using the Lan-DeMets spending function
# method" (Controlled Clinical Trials 2000): five equal looks, two-sided level .05.
@pytest.mark.parametrize(
    ("spending", "scores"),
    [
        ("obrien_fleming", [4.8769, 3.3569, 2.6803, 2.2898, 2.0310]),
        ("pocock", [2.4380, 2.4268, 2.4101, 2.3966, 2.3859]),
    ],
)
def test_boundaries_are_lan_and_demets(spending, scores):
    found = boundaries(0.05, (0.2, 0.4, 0.6, 0.8, 1.0), spending)
    assert -ndtri(np.array(found) / 2) == pytest.approx(scores, abs=2e-3)


@pytest.mark.parametrize("spending", SPENDING)
def test_a_p_value_on_the_boundary_of_a_level_reaches_this_level(spending):
    fractions, look = plan().fractions, 2
    for level in (0.3, 0.0173, 1e-4):
        p = np.array([boundaries(level, fractions, spending)[look]])
        assert level_reached(p, look, fractions, spending) == pytest.approx(level, rel=1e-3)
    reached = level_reached(np.array([1e-30, 1e-4, 0.01, 0.2, 1.0]), look, fractions, spending)
    assert (np.diff(reached) >= 0).all()
    assert reached[-1] == 1.0
    assert (reached >= [1e-30, 1e-4, 0.01, 0.2, 1.0]).all()  # several looks never make a p-value smaller


LOOKS = (2, 3, 5, 8)
A, B, C = (Contrast(arm=arm, against="base_arm") for arm in "abc")


def plan(stop="pocock", level=0.05):
    return Plan(LOOKS, stop, level)


def record(margin=None, **more):
    written = {"looks": [*LOOKS], "stop": "pocock", "margin": margin, "level": 0.05, "question": "q", "evaluation": "e"}
    return Sequential(**written, arms={}, declared="2026-01-31T12:00:00Z", runs_then=0, **more)


def measured(p, low=-1.0, high=1.0, seeds=2):
    return Measured((low + high) / 2, low, high, p, seeds)


def test_a_decided_contrast_leaves_its_error_to_the_others():
    first, second = plan().boundary(0, 2), plan().boundary(0, 1)
    assert first == pytest.approx(boundaries(0.025, plan().fractions, "pocock")[0])
    between = (first + second) / 2
    alone = corrected(np.array([between, 0.9]), 0, plan(), 0) < 0.05
    assert alone.tolist() == [False, False]
    together = corrected(np.array([between, first * 0.9]), 0, plan(), 0) < 0.05
    assert together.tolist() == [True, True]
    assert corrected(np.array([between]), 0, plan(), 0)[0] < 0.05
    assert corrected(np.array([between]), 0, plan(), 1)[0] > 0.05  # an equivalent contrast leaves nothing


def test_the_familywise_error_of_all_looks_and_contrasts():
    rng = np.random.default_rng(2)
    steps = np.sqrt(np.diff([0.0, *plan().fractions]))
    scores = np.cumsum(rng.normal(size=(6000, 3, 4)) * steps, axis=2) / np.sqrt(plan().fractions)
    wrong = np.zeros(len(scores), bool)
    for look in range(4):
        p = 2 * ndtr(-np.abs(scores[:, :, look]))
        wrong |= (np.apply_along_axis(corrected, 1, p, look, plan(), 0) < 0.05).any(axis=1)
    # Where a contrast is decided, the study counts already: those that follow cannot make a second error of it.
    assert 0.04 < wrong.mean() < 0.055


def test_a_look_closes_what_is_different_or_equivalent_and_leaves_the_rest_open():
    found = next_look([A, B, C], [measured(1e-6), measured(0.5, -0.1, 0.2), measured(0.5)], plan(), record(0.3), True)
    assert [each.decision for each in found.contrasts] == ["different", "equivalent", "open"]
    assert found.seeds == 2
    no_share = next_look([B], [measured(0.5, -0.1, 0.2)], plan(), record(0.3), False)
    assert no_share.contrasts[0].decision == "open"  # its interval is not compared with the margin
    assert found.contrasts[0].boundary == pytest.approx(plan().boundary(0, 3))
    assert found.error_left == pytest.approx(0.05 * (1 - np.log1p((np.e - 1) / 4)))

    later = record(0.3, taken=[found])
    assert [later.is_open(contrast) for contrast in (A, B, C)] == [False, False, True]
    second = next_look([C], [measured(0.5)], plan(), later, True)
    assert second.contrasts[0].boundary == pytest.approx(plan().boundary(1, 2))  # b is not different


@pytest.mark.parametrize("values", [measured(1e-9, seeds=1), measured(0.5, -0.1, 0.2, seeds=1)])
def test_one_seed_decides_nothing(values):
    looks = []
    for decision in ("open", "open", "open", "undecided"):
        looks.append(next_look([A, B], [values, measured(1e-6)], plan(), record(0.3, taken=looks), True))
        found = looks[-1].contrasts
        assert [each.decision for each in found] == [decision, "different"]
        assert (found[0].p, found[0].p_holm, found[0].low) == (1.0, 1.0, values.low)


def test_a_look_records_the_seeds_that_are_left_of_it(tmp_path):
    made = MadeUpStudy(seeds=(0, 1, 2), steps=1, rollouts=2, datasets={"gsm8k_test": 40})
    made.write(tmp_path)
    content = made.plan()
    content["runs"] = [run for run in content["runs"] if (run["arm"], run["seed"]) != ("format_only", 1)]
    contrasts = [Contrast(arm=arm, against="correctness_only") for arm in ("format_only", "length_only")]
    found = measured_contrasts(StudyFile.model_validate(content), tmp_path, contrasts, 0.95)
    assert [each.seeds for each in found] == [2, 3]
    assert [each.seeds for each in next_look(contrasts, found, plan(), record(), True).contrasts] == [2, 3]


def test_after_the_last_look_nothing_is_open():
    looks = [next_look([A], [measured(0.5)], plan(), record(), False)]
    for _ in LOOKS[1:]:
        looks.append(next_look([A], [measured(0.5)], plan(), record(taken=looks), False))
    assert [look.contrasts[0].decision for look in looks] == ["open", "open", "open", "undecided"]
    assert [look.seeds for look in looks] == [*LOOKS]
    assert looks[-1].error_left == pytest.approx(0.0, abs=1e-12)
    assert record(taken=looks).next_look is None
    assert min(plan().confidence(look) for look in range(4)) > 0.95
    assert plan("obrien_fleming").confidence(3) < plan().confidence(3)
