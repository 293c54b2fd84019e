"""Variance components, from a pilot and from stated values."""

import numpy as np
import pandas as pd
import pytest

from analysis.made_up import MadeUpStudy
from reward_ablation.analysis.statistics.limits import COUNT, SHARE, UNLIMITED
from reward_ablation.analysis.study_file import read_study
from reward_ablation.design.variances import (
    Components,
    SeedPart,
    Stated,
    components_from_stated,
    estimate_components,
    override_components,
    read_pilot,
)
from reward_ablation.study.primary import Contrast, Question
from reward_ablation.system.errors import StudyError

ARMS = ["a", "b", "c", "d"]
PAIRS = [("b", "a"), ("c", "a"), ("d", "a")]


def seed_deviation(of: Components, arm: str) -> float:
    """Standard deviation between an arm's seeds in units of the metric, without the noise of the questions."""
    return of.slope(arm) * float(np.sqrt(of.seed_of(arm).variance + of.seed.common))


def answers(seeds=2, questions=400, seed_sd=0.0, common_sd=0.0, question_sd=0.0, cell_sd=0.0, unlike=None):
    """Question means of arms with mean .5, where the comparable scale and the metric have the same unit."""
    rng = np.random.default_rng(5)
    difficulty, common = rng.normal(0, 0.1, questions), rng.normal(0, common_sd, (seeds, 1))
    values = {}
    for arm in ARMS:
        own = rng.normal(0, seed_sd * (unlike or {}).get(arm, 1.0), (seeds, 1))
        of_questions = rng.normal(0, question_sd / np.sqrt(2), questions)
        cells = rng.normal(0, cell_sd, (seeds, questions))
        values[arm] = dict(enumerate(0.5 + difficulty + of_questions + common + own + cells))
    return values


def components(values, samples=1, sample=0.0, limits=SHARE, pairs=PAIRS):
    return estimate_components(values, samples, dict.fromkeys(values, sample), limits, pairs, "pilot")


def test_known_components_are_found_again():
    found = components(answers(200, 400, seed_sd=0.03, common_sd=0.05, question_sd=0.2, cell_sd=0.3))
    assert np.sqrt(found.seed.variance) == pytest.approx(0.03, rel=0.05)
    assert np.sqrt(found.seed.common) == pytest.approx(0.05, rel=0.15)
    assert found.seed.degrees == 3 * 199
    assert np.sqrt(found.question["c", "a"]) == pytest.approx(0.2, rel=0.1)
    assert np.sqrt(found.interaction["b"]) == pytest.approx(0.3, rel=0.02)
    # a seed's own mean varies by .03² and .3² over 400 questions
    assert found.seed_variance("b", 400, 1) == pytest.approx(0.03**2 + 0.3**2 / 400, rel=0.1)


def test_noise_of_samples_shrinks_with_samples_and_the_rest_does_not():
    found = components(answers(cell_sd=0.3), samples=4, sample=0.2)
    assert found.interaction["a"] == pytest.approx(0.09 - 0.2 / 4, abs=0.01)
    assert found.answer_variance("a", 100, 8) == pytest.approx((found.interaction["a"] + 0.025) / 100)


def test_ends_are_those_of_tables_of_chi_square():
    # the 10 % and 90 % quantiles of chi-square with one degree of freedom are .01579 and 2.7055
    assert SeedPart(0.04, 0.0, 1.0).ends() == pytest.approx((0.04 / 2.7055, 0.04 / 0.01579), rel=1e-3)
    assert SeedPart(0.04, 0.03, 1.0).ends()[0] == 0  # noise alone may have made all of it
    assert SeedPart(0.04, 0.0, np.inf).ends() == (0.04, 0.04)
    part = SeedPart(0.04, 0.005, 3.0)
    low, high = part.ends()
    drawn = part.drawn(20_000, np.random.default_rng(0))
    assert ((low <= drawn) & (drawn <= high)).mean() == pytest.approx(0.8, abs=0.01)


def test_an_arm_whose_seeds_differ_more_counts_by_itself():
    found = components(answers(5, 400, seed_sd=0.01, unlike={"c": 20.0}))
    assert found.flagged == ("c",)
    assert seed_deviation(found, "c") > 0.08
    assert seed_deviation(found, "a") < 0.02


def test_arms_without_seeds_in_common_give_each_its_own_variance():
    values = answers(4, seed_sd=0.05)
    values["a"] = {seed + 10: of_seed for seed, of_seed in values["a"].items()}
    found = components(values)
    assert found.seed.degrees == 4 * 3
    assert np.isfinite(found.seed.variance)
    filled = found.for_arms([*ARMS, "new"], [*PAIRS, ("new", "c")])  # an arm that the pilot lacks is like the others
    assert set(filled.question) == {*PAIRS, ("new", "c")}
    assert filled.means["new"] == pytest.approx(0.5, abs=0.1)
    with pytest.raises(StudyError, match="no arm has two finished seeds"):
        components({arm: {0: of_arm[0]} for arm, of_arm in answers().items()})


def test_arms_that_share_no_two_seeds_show_how_much_questions_differ():
    values = answers(4, 4000, question_sd=0.3, cell_sd=0.3)
    values |= {arm: {seed: values[arm][seed] for seed in seeds} for arm, seeds in (("a", [0, 1, 2]), ("b", [2, 3]))}
    assert np.sqrt(components(values).question["b", "a"]) == pytest.approx(0.3, rel=0.05)


def test_stated_values_are_those_of_the_components():
    of = components_from_stated(Stated(seed_sd=0.03, mean=0.8), SHARE, 300, 4, False, ARMS, PAIRS)
    assert seed_deviation(of, "a") == pytest.approx(0.03, rel=0.01)
    assert of.sample["a"] == pytest.approx(0.7 * 0.8 * 0.2)
    assert of.interaction["a"] == 0
    assert of.source == "stated (seed_sd 0.03), usual values of answer_sd, question_sd"
    greedy = components_from_stated(Stated(seed_sd=0.03, answer_sd=0.4), SHARE, 300, 1, True, ARMS, PAIRS)
    assert (greedy.interaction["a"], greedy.sample["a"]) == (pytest.approx(0.16), 0)


def test_a_count_needs_more_stated_values():
    known = {}
    for name, value, limits in [
        ("seed_sd", 1.0, SHARE),
        ("mean", 20.0, COUNT),
        ("answer_sd", 3.0, COUNT),
        ("question_sd", 2.0, UNLIMITED),
    ]:
        with pytest.raises(StudyError, match=name):
            components_from_stated(Stated(**known), limits, 300, 1, True, ARMS, PAIRS)
        known[name] = value
    of = components_from_stated(Stated(**known), COUNT, 300, 1, True, ARMS, PAIRS)
    assert seed_deviation(of, "a") == pytest.approx(1.0)


def test_stated_values_count_before_those_of_a_pilot():
    found = override_components(components(answers(seed_sd=0.05)), Stated(seed_sd=0.01))
    assert seed_deviation(found, "a") == pytest.approx(0.01, rel=0.05)
    assert found.seed.ends() == (found.seed.variance,) * 2
    assert found.source == "pilot; stated: seed_sd 0.01"
    found = override_components(components(answers(seed_sd=0.05)), Stated(question_sd=0.2, answer_sd=0.3))
    assert [*found.question.values()] == pytest.approx([0.04] * len(found.question))
    variances = [found.interaction[arm] + found.sample[arm] for arm in found.means]
    assert variances == pytest.approx([0.09] * len(found.means))


PAIR = Contrast(arm="format_only", against="correctness_only")


def asked(**changes):
    content = {"dataset": "gsm8k_test", "mode": "sampled", "metric": "accuracy_strict", "contrasts": [PAIR]}
    return Question(**content | changes)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("pilot")
    MadeUpStudy(steps=1, rollouts=2, seeds=(0, 1, 2), samples=3).write(root)
    return root


def test_components_are_those_of_the_answers(folder):
    found = read_pilot(folder, asked(), "pilot")
    runs = [run for run in read_study(folder / "study.json").runs if run.arm == PAIR.arm]
    by_hand = []
    for run in runs:
        answers = pd.read_parquet(folder / "evaluation" / run.name / "gsm8k_test.parquet").query("mode == 'sampled'")
        mean = answers["correct_strict"].astype(float).groupby(answers["problem_id"]).mean()
        by_hand.append((mean * (1 - mean) * 3 / 2).mean())  # of a single one of three binary samples with this mean
    assert (found.questions, found.samples, found.seeds) == (40, 3, 3)
    assert set(found.question) == {("format_only", "correctness_only")}
    assert found.sample[PAIR.arm] == pytest.approx(np.mean(by_hand))
    for question in (asked(mode="greedy"), asked(metric="pass@3")):  # no noise that samples take away
        assert not any(read_pilot(folder, question, "pilot").sample.values())


def test_runs_that_are_not_finished_do_not_count(folder, tmp_path):
    MadeUpStudy(steps=1, rollouts=2, seeds=(0, 1, 2)).write(tmp_path)
    for run in read_study(tmp_path / "study.json").runs:
        if run.seed == 2:
            (tmp_path / run.folder / "run.json").unlink()
    assert read_pilot(tmp_path, asked(), "pilot").seeds == 2


def test_what_a_pilot_lacks_is_said_in_a_line(folder, tmp_path):
    for root, question, says in (
        (folder, asked(dataset="math"), "has no data set math; its data sets: gsm8k_test"),
        (folder, asked(metric="pass@64"), "has no metric pass@64 in mode sampled"),
        (tmp_path, asked(), r"pilot: not a study's results folder, because it has no study\.json"),
    ):
        with pytest.raises(StudyError, match=says):
            read_pilot(root, question, "pilot")
