"""The primary differences by level and subject of the questions."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

from analysis.made_up import MadeUpStudy
from reward_ablation.analysis.evaluation.by_level import (
    FEWEST,
    FEWEST_OF_ONE_SEED,
    Group,
    differences_by_level,
    groups_of,
    of_group,
)
from reward_ablation.analysis.evaluation.question_means import ModeMeans
from reward_ablation.analysis.study_file import read_study
from reward_ablation.system.files import write_parquet

QUESTIONS = 120


@pytest.fixture
def study(tmp_path):
    """An arm without a component is .3 worse at level 3 and as good at levels 1 and 2."""
    made = MadeUpStudy(
        {"full": {"a": 1.0, "b": 1.0}, "no_b": {"a": 1.0, "b": 0.0}, "no_a": {"a": 0.0, "b": 1.0}}, steps=1, rollouts=2
    )
    found = read_study(made.write(tmp_path))
    primary = found.primary
    names = [f"q{n:03d}" for n in range(QUESTIONS)]
    levels = pd.DataFrame({"id": names, "level": np.arange(QUESTIONS) % 3 + 1, "subject": "algebra"})
    levels.loc[: FEWEST - 2, "subject"] = "few"
    write_parquet(levels, tmp_path / found.questions[primary.dataset])

    def read(dataset, arm):
        worse = np.where(levels["level"] == 3, 0.3 * (arm == "no_b"), 0.0)
        means = {}
        for seed in [None] if arm == "base" else range(3):
            rng = np.random.default_rng([seed or 0, [*found.arm_names, "base"].index(arm)])
            values = np.clip(0.6 + rng.normal(0, 0.1, QUESTIONS) - worse, 0, 1)
            of_mode = ModeMeans([primary.metric], values[None], np.array(names, dtype=object), np.ones(QUESTIONS))
            means[seed] = {primary.mode: of_mode}
        return means

    return found, tmp_path, read


def test_a_difference_that_depends_on_the_level_is_found(study):
    found, root, read = study
    table = pd.concat(differences_by_level(found, root, read))
    rows = table[(table["arm"] == "no_b") | (table["baseline"] == "no_b")].set_index("group")
    sign = 1 if (rows["baseline"] == "no_b").any() else -1
    assert rows.index.tolist() == ["1", "2", "3"]  # and no subject: one of the two has too few questions
    assert rows.loc["3", ["estimate", "from_rest"]].tolist() == pytest.approx([sign * 0.3] * 2, abs=0.05)
    assert rows.loc["3", "p_holm"] < 0.01
    assert rows.loc["3", "low"] < rows.loc["3", "estimate"] < rows.loc["3", "high"]
    assert (rows["questions"] == QUESTIONS / 3).all()
    assert (table["p_holm"] >= table["p"]).all()


def test_few_questions_count_by_their_own_degrees_of_freedom(study):
    """One seed: the difference varies at thirty questions alone."""
    found, root, read = study
    primary, inside = found.primary, np.arange(QUESTIONS) < FEWEST_OF_ONE_SEED
    levels = pd.read_parquet(root / found.questions[primary.dataset]).assign(level=np.where(inside, 1, 2))
    write_parquet(levels, root / found.questions[primary.dataset])
    noise = np.where(inside, np.tile([0.05, 0.15], QUESTIONS // 2), 0.02)

    def read_one(dataset, arm):
        means = {None: read(dataset, arm)[None]} if arm == "base" else {0: read(dataset, "full")[0]}
        if arm != found.baseline:
            return means
        mode = means[0][primary.mode]
        return {0: {primary.mode: mode._replace(values=mode.values - noise)}}

    table = pd.concat(differences_by_level(found, root, read_one)).set_index("group")
    assert np.allclose(table["from_rest"], table.index.map({"1": 0.08, "2": -0.08}))
    error = 0.05 / np.sqrt(FEWEST_OF_ONE_SEED)
    widths = (table["from_rest_high"] - table["from_rest_low"]) / (2 * t.ppf(0.975, FEWEST_OF_ONE_SEED - 1) * error)
    assert widths.between(0.97, 1.05).all()  # .95 with the degrees of all questions
    levels.loc[inside, "level"] = np.where(np.arange(QUESTIONS)[inside] < FEWEST_OF_ONE_SEED - 1, 1, 3)
    write_parquet(levels, root / found.questions[primary.dataset])
    assert differences_by_level(found, root, read_one) == []  # one group is too small for one seed, and one is left


@pytest.mark.parametrize(("seeds", "questions"), [(1, FEWEST_OF_ONE_SEED), (2, FEWEST)])
def test_without_an_effect_few_p_values_are_small(study, seeds, questions):
    """Single answers that are right or wrong, in 300 made-up studies."""
    found, rng, small = study[0].model_copy(update={"bootstrap": 200}), np.random.default_rng(1), []
    group, contrasts = Group("level", "1", np.arange(500) < questions), found.primary.contrasts[:1]
    for _ in range(300):
        rates = rng.beta(1.2, 0.8, 500)
        arms = {arm: {n: (rng.random(500) < rates).astype(float) for n in range(seeds)} for arm in found.arm_names}
        [row] = of_group(group, contrasts, arms, found)
        small.append(row["p"].iloc[0] < 0.05)
    assert np.mean(small) < 0.09  # with ten questions and one seed .13


def test_groups_are_in_the_order_of_their_values():
    levels = pd.Series(np.repeat([10.0, 9.0, np.nan, 2.0], [FEWEST, FEWEST, FEWEST, FEWEST - 1]))
    assert [group.name for group in groups_of("level", levels)] == ["9", "10"]
    assert groups_of("level", levels[levels != 9]) == []  # one group
