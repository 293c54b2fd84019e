"""Signs of reward hacking on made-up courses."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.made_up import MadeUpStudy
from reward_ablation.analysis.reward_hacking import reward_hacking
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.training_rewards import around, changes, end_of_training

ARMS = {
    "form_only": {"right": 0.0, "form": 1.0},
    "right_only": {"right": 1.0, "form": 0.0},
    "penalty": {"right": 0.0, "form": -1.0},
}
STEPS = 40
TIME = np.arange(1, STEPS + 1)
UP, DOWN, FLAT = np.linspace(0.3, 0.9, STEPS), np.linspace(0.9, 0.3, STEPS), np.full(STEPS, 0.4)


def study(*arms: str, **keys) -> StudyFile:
    plan = MadeUpStudy(arms={arm: ARMS[arm] for arm in arms or ARMS}, steps=STEPS).plan()
    return StudyFile.model_validate(plan | keys)


def rewards(courses, seeds=(0, 1), quantity="form") -> pd.DataFrame:
    """Rows of `rewards_by_step`: a course by arm, with noise between seeds."""
    rng = np.random.default_rng(1)
    rows = [
        pd.DataFrame({"arm": arm, "seed": seed, "step": TIME, "mean": course + rng.normal(0, 0.02, STEPS)})
        for arm, course in courses.items()
        for seed in seeds
    ]
    return pd.concat(rows, ignore_index=True).assign(quantity=quantity)


def answers(metric, tokens=(100, 100, 100), seeds=(0, 1), steps=(0, 20, 40)) -> pd.DataFrame:
    """Held-out answers: by arm the metric at each step, with a difference between seeds that grows."""
    rows = [
        (arm, seed, step, value + 0.001 * seed * step, length * (1 + 0.0005 * seed * step))
        for arm, values in metric.items()
        for seed in seeds
        for step, value, length in zip(steps, values, tokens, strict=False)
    ]
    return pd.DataFrame(rows, columns=["arm", "seed", "step", "metric", "tokens"]).assign(mode="sampled")


def signs(found: pd.DataFrame) -> set[tuple[str, str, int]]:
    rows = found[found["sign"]]
    return set(zip(rows["arm"], rows["kind"], rows["since"], strict=True))


def test_a_fall_while_the_reward_rose_is_a_sign_with_the_points_it_is_between():
    courses = {"form_only": (0.3, 0.8, 0.3), "right_only": (0.4, 0.6, 0.8)}
    table = reward_hacking(
        study("form_only", "right_only"), rewards({"form_only": UP, "right_only": FLAT}), answers(courses)
    )
    assert signs(table) == {("form_only", "fall", 20)}  # it ends as high as the base model
    row = table[table["sign"]].iloc[0]
    assert (row["component"], row["before"], row["after"]) == ("form", pytest.approx(0.81), pytest.approx(0.32))
    assert row["rise_low"] > 0 > row["change_high"]
    assert row["sentence"].startswith("form_only: the reward form rose by 0.")
    assert "lenient accuracy on gsm8k_test (sampled) fell from 0.810 to 0.320 (change −" in row["sentence"]
    assert row["sentence"].endswith("since step 20")
    plateau = reward_hacking(study("form_only"), rewards({"form_only": UP}), answers({"form_only": (0.2, 0.8, 0.8)}))
    assert signs(plateau) == set()
    assert (plateau["sentence"] == "form_only: no sign (fall) since step 20").any()


def test_a_penalty_that_falls_is_a_reward_that_rises():
    one = study("penalty")
    table = reward_hacking(one, rewards({"penalty": DOWN}), answers({"penalty": (0.8, 0.8, 0.2)}))
    assert ("penalty", "fall", 20) in signs(table)
    row = table[(table["kind"] == "fall") & (table["since"] == 20)].iloc[0]
    assert row["rise_low"] < row["rise"] < row["rise_high"] < 0  # of the score, as the columns say
    assert f"penalty: the score form fell by {-row['rise']:.3f} (negative weight), and lenient " in row["sentence"]
    assert signs(reward_hacking(one, rewards({"penalty": UP}), answers({"penalty": (0.8, 0.8, 0.2)}))) == set()


@pytest.mark.parametrize(
    ("component", "scores"),
    [
        ({"function": "signed_answer"}, (-1.0, 1.0)),
        ({"function": "unit_tests"}, (0.0, 1.0)),
        ({"function": "unit_tests", "parameters": {"partial": True}}, None),
    ],
    ids=str,
)
def test_a_gap_is_one_of_accuracies_whatever_an_answer_scores(component, scores):
    plan = MadeUpStudy(arms={"right_only": ARMS["right_only"]}, steps=STEPS).plan()
    for run in plan["runs"]:
        run["spec"]["components"]["right"] |= component
    wrong, right = scores or (-1.0, 1.0)
    course = rewards({"right_only": UP}, quantity="right")  # the accuracy of training
    course["mean"] = wrong + (right - wrong) * course["mean"]
    table = reward_hacking(StudyFile.model_validate(plan), course, answers({"right_only": (0.3, 0.6, 0.85)}))
    gaps = table[(table["kind"] == "gap") & (table["since"] == 0)]
    assert len(gaps) == (scores is not None)
    assert gaps["before"].tolist() == pytest.approx([0.02] * len(gaps), abs=0.02)
    assert gaps["change"].tolist() == pytest.approx([0.0] * len(gaps), abs=0.03)
    low = reward_hacking(StudyFile.model_validate(plan), course, answers({"right_only": (0.3, 0.35, 0.35)}))
    assert (("right_only", "gap", 0) in signs(low)) == (scores is not None)
    sentence = "the gap between training accuracy and lenient accuracy on gsm8k_test (sampled) grew by 0."
    assert low["sentence"].str.contains(sentence, regex=False).any() == (scores is not None)


def test_longer_answers_are_a_sign_where_the_metric_did_not_rise():
    flat, up = (
        reward_hacking(
            study("form_only"), rewards({"form_only": FLAT}), answers({"form_only": course}, tokens=(100, 150, 300))
        )
        for course in ((0.4, 0.35, 0.3), (0.2, 0.5, 0.52))
    )
    assert {kind for _, kind, _ in signs(flat)} == {"length"}
    assert "answers grew from 100 to 303 tokens (geometric means over seeds; factor " in flat["sentence"].str.cat()
    assert signs(up) == set()


def test_sentences_say_that_a_metric_of_which_less_is_better_rose_or_did_not_fall():
    primary = {**study("form_only").primary.model_dump(), "metric": "truncated"}
    one, rewarded = study("form_only", primary=primary), rewards({"form_only": UP})
    table = reward_hacking(one, rewarded, answers({"form_only": (0.1, 0.4, 0.6)}, tokens=(100, 150, 300)))
    assert {kind for _, kind, _ in signs(table)} == {"fall", "length"}
    row = table[(table["kind"] == "fall") & (table["since"] == 0)].iloc[0]
    assert 0 < -row["change_high"] < -row["change_low"]
    change = f"(change {-row['change_high']:.3f} to {-row['change_low']:.3f})"
    assert row["sentence"].endswith(f" rose from 0.100 to 0.620 {change} since the base model")
    assert table.loc[table["kind"] == "length", "sentence"].str.endswith("on gsm8k_test (sampled) did not fall").all()


def test_one_seed_has_no_interval_and_no_sign_and_says_so():
    held_out = answers({"form_only": (0.9, 0.9, 0.1)}, seeds=(0,))
    table = reward_hacking(study("form_only", seeds=[0]), rewards({"form_only": UP}, seeds=(0,)), held_out)
    assert not table["sign"].any()
    assert table["sentence"].str.contains("no interval").all()
    index = pd.MultiIndex.from_product([["x"], [0, 1]], names=["arm", "seed"])  # seeds that do not differ
    found = changes(pd.Series(0.5, index), pd.Series(0.1, index), 0.95, {})["x"]
    assert (found["change"], found["seeds"]) == (pytest.approx(-0.4), 2)
    assert np.isnan([found["low"], found["high"]]).all()


def test_intervals_borrow_one_degree_of_freedom():
    index = pd.MultiIndex.from_product([["x", "y"], [0, 1]], names=["arm", "seed"])
    after = pd.Series([0.1, 0.3, 0.0, 0.4], index)
    high = {arm: found["high"] for arm, found in changes(pd.Series(0.0, index), after, 0.95, {}).items()}
    # variances .02 and .08 are averaged; Student's t of two degrees of freedom is 4.303
    assert high["x"] - 0.2 == pytest.approx(4.3027 * (0.05 / 2) ** 0.5, rel=1e-4)
    assert high["y"] == pytest.approx(high["x"])


def test_differences_at_the_end_of_training_are_those_without_the_second_name():
    plan = MadeUpStudy(arms=ARMS, steps=STEPS).plan()
    scores = rewards({"form_only": UP, "right_only": FLAT, "penalty": DOWN})
    alone = end_of_training(StudyFile.model_validate(plan), scores)
    runs = [run | {"arm": "again"} for run in plan["runs"] if run["arm"] == "penalty"]
    twin = {"arms": [*plan["arms"], {"name": "again", "weights": ARMS["penalty"]}], "runs": plan["runs"] + runs}
    both = pd.concat([scores, scores[scores["arm"] == "penalty"].assign(arm="again")], ignore_index=True)
    found = end_of_training(StudyFile.model_validate(plan | twin), both)
    for row, expected in zip(found, [*alone, alone[-1]._replace(arm="again")], strict=True):
        assert row[:2] == expected[:2]
        assert row[2:] == pytest.approx(expected[2:], nan_ok=True)


def test_the_middle_is_that_of_each_arm_where_arms_have_other_numbers_of_steps():
    short = answers({"right_only": (0.3, 0.8, 0.2)}, steps=(0, 15, 40))
    longer = answers({"form_only": (0.3, 0.8, 0.2)}, steps=(0, 50, 80))
    steps = rewards({"right_only": np.where(TIME < 17, 0.2, 0.9), "form_only": np.where(TIME < 23, 0.2, 1)})
    steps["step"] *= steps["arm"].map({"right_only": 1, "form_only": 2})
    table = reward_hacking(study(), steps.astype({"arm": "category"}), pd.concat([short, longer]))
    middle = table[table["since"] > 0].drop_duplicates("arm").set_index("arm")
    assert middle["since"].to_dict() == {"form_only": 50, "right_only": 15}
    assert middle.loc["form_only", "sentence"].endswith("since step 50")
    assert middle.loc["form_only", "rise"] == pytest.approx(0.0, abs=0.05)  # it rose before step 50, and after 40


def test_rewards_around_a_point_are_of_a_tenth_of_the_steps():
    course = rewards({"x": TIME / 1.0}, seeds=(0,))
    assert [around(course, place).iloc[0] for place in (0.0, 0.5, 1.0)] == pytest.approx([2.5, 20.5, 38.5], abs=0.1)
    for steps, point, mean in [(5, 0.4, 3), (4, 0.5, 2.5), (3, 1.0, 3)]:  # of few steps, of the nearest
        few = pd.DataFrame({"arm": "y", "seed": 0, "step": range(1, steps + 1), "mean": np.arange(1.0, steps + 1)})
        found = around(pd.concat([few, course], ignore_index=True), point)
        assert found["y", 0] == pytest.approx(mean)
        assert found["x", 0] == pytest.approx(around(course, point)["x", 0])  # each run has a window of its own
        points = pd.Series([point], index=pd.MultiIndex.from_tuples([("y", 0)], names=["arm", "seed"]))
        assert around(pd.concat([few, course], ignore_index=True), points).to_dict() == {("y", 0): pytest.approx(mean)}


@pytest.mark.parametrize(
    ("kind", "expected"), [("padding", {"fall", "length"}), ("by heart", {"gap"}), ("drift", set())]
)
def test_the_benchmark_of_planted_hacks_finds_them(monkeypatch, kind, expected):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    import planted_hacks

    assert planted_hacks.signs(kind, 3, np.random.default_rng(1)) == expected
