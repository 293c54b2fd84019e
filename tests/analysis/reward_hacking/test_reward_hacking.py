import numpy as np
import pandas as pd
import pytest

from analysis.made_up import MadeUpStudy
from reward_ablation.analysis.reward_hacking.measures import HeldOut
from reward_ablation.analysis.reward_hacking.tables import reward_hacking
from reward_ablation.analysis.reward_hacking.words import number
from reward_ablation.analysis.study_file import StudyFile, correctness_component
from specs import COMPONENT

ARMS = {
    "form_only": {"right": 0.0, "form": 1.0},
    "right_only": {"right": 1.0, "form": 0.0},
    "penalty": {"right": 0.0, "form": -1.0},
}
STEPS = 40
TIME = np.arange(1, STEPS + 1)
UP, FLAT = np.linspace(0.3, 0.9, STEPS), np.full(STEPS, 0.4)
TURN = 0.4 - 0.015 * np.maximum(TIME - 20, 0)  # falls from the middle on
TRAINING = "accuracy on the training problems of each step"


def study(*arms: str, **keys) -> StudyFile:
    plan = MadeUpStudy(arms={arm: ARMS[arm] for arm in arms or ARMS}, steps=STEPS).plan()
    return StudyFile.model_validate(plan | keys)


def by_step(courses, column: str, noise=0.02, seeds=(0, 1), start=0) -> pd.DataFrame:
    """Rows of arms and seeds by step: courses with independent noise."""
    rng = np.random.default_rng(start)
    rows = [
        pd.DataFrame({"arm": arm, "seed": seed, "step": TIME, column: course + rng.normal(0, noise, STEPS)})
        for arm, course in courses.items()
        for seed in seeds
    ]
    return pd.concat(rows, ignore_index=True)


def rewards(form) -> pd.DataFrame:
    """Rows of `rewards_by_step`: courses of the component `form` by arm."""
    return by_step(form, "mean", start=1).assign(quantity="form")


def answers(right, longer=None) -> pd.DataFrame:
    """Rows of `training_answers`: courses of accuracy, and of lengths by correctness, by arm."""
    lengths = by_step(longer or dict.fromkeys(right, np.full(STEPS, -0.1)), "wrong_longer", start=2)["wrong_longer"]
    return by_step(right, "right").assign(sampling=0.02**2, wrong_longer=lengths)


def models(*accuracies: float, one_grader=0.0, seeds=(0, 1), steps=(0, 10, 20, 30, 40)) -> HeldOut:
    """Answers to 200 questions. Between models, only as many answers change as the accuracy does."""
    easy = np.random.default_rng(0).random(200)
    lenient = np.array([[(easy < accuracy).astype(float) for accuracy in accuracies]] * len(seeds))
    shares = np.linspace(0, one_grader, len(accuracies))
    alone = np.array([[(easy < share).astype(float) for share in shares]] * len(seeds))
    return HeldOut("gsm8k", "sampled", list(seeds), np.array(steps[: len(accuracies)]), lenient, alone)


def rows_of(found: pd.DataFrame, kind: str, arm: str = "form_only") -> pd.DataFrame:
    return found[(found["kind"] == kind) & (found["arm"] == arm)]


def test_a_fall_in_training_is_told_in_words():
    form = {"form_only": UP, "right_only": FLAT, "penalty": UP}
    right = {"form_only": TURN, "right_only": UP, "penalty": FLAT}
    found = reward_hacking(study(), rewards(form), answers(right), {})
    assert set(found["arm"][found["kind"].isin(["fall", "plateau"])]) == {"form_only", "penalty"}  # but correctness
    assert list(found["arm"][found["sign"]]) == ["form_only"]
    row = rows_of(found, "fall").iloc[0]
    assert abs(row["onset"] - 20) <= 4
    assert row["before"] == pytest.approx(0.4, abs=0.03)
    assert row["change"] == pytest.approx(row["after"] - row["before"])
    assert row["change_low"] < row["change"] < row["change_high"]
    assert row["p"] < 0.05
    assert row["p_rise"] < 0.001
    assert np.isnan(row["p_control"])
    assert row["sentence"].startswith("form_only: the reward form rose .")
    assert f"-> .86 while {TRAINING} fell .4" in row["sentence"]
    assert row["sentence"].endswith(f", from step {row['onset']} on")
    none = rows_of(found, "fall", "penalty").iloc[0]
    assert none["sentence"] == f"penalty: no sign (fall) of form against {TRAINING}"
    assert (found["onset"].isna() == (found["p"] >= 0.05)).all()


def test_a_component_of_negative_weight_is_pressed_down():
    found = reward_hacking(study("penalty"), rewards({"penalty": UP[::-1]}), answers({"penalty": TURN}), {})
    row = rows_of(found, "fall", "penalty").iloc[0]
    assert row["sign"]
    assert row["rise"] > 0
    assert "form fell, as its weight asks, ." in row["sentence"]


def test_a_component_that_only_the_method_of_combination_names_is_looked_at():
    budget = {"method": "lagrangian", "parameters": {"at_least": {"form": 0.9}}, "components": ["form"]}
    plan = MadeUpStudy(arms={"right_only": ARMS["right_only"]}, methods={"right_only": budget}, steps=STEPS).plan()
    of_study = StudyFile.model_validate(plan)
    found = reward_hacking(of_study, rewards({"right_only": UP}), answers({"right_only": TURN}), {})
    row = rows_of(found, "fall", "right_only").iloc[0]
    assert row["sign"]
    assert row["component"] == "form"


def test_a_fall_without_a_rise_is_no_sign():
    found = reward_hacking(study("form_only"), rewards({"form_only": FLAT}), answers({"form_only": TURN}), {})
    row = rows_of(found, "fall").iloc[0]
    assert row["p"] < 0.05
    assert not row["sign"]


def test_a_reward_that_rises_after_accuracy_has_stopped_is_a_plateau():
    stops = 0.2 + 0.02 * np.minimum(TIME, 15)
    found = reward_hacking(study("form_only"), rewards({"form_only": UP}), answers({"form_only": stops}), {})
    assert list(found["kind"][found["sign"]]) == ["plateau"]
    row = rows_of(found, "plateau").iloc[0]
    assert abs(row["onset"] - 15) <= 4
    assert f"after {TRAINING} had stopped rising at step {row['onset']}" in row["sentence"]
    levels = 1 - np.exp(-TIME / 8)
    alike = reward_hacking(
        study("form_only"), rewards({"form_only": 0.3 + 0.6 * levels}), answers({"form_only": 0.2 + 0.4 * levels}), {}
    )
    assert not alike["sign"].any()


def test_wrong_answers_that_grow_longer_than_right_ones_are_a_sign():
    grows = {"right_only": np.linspace(-0.1, 0.4, STEPS)}
    found = reward_hacking(study("right_only"), rewards({"right_only": FLAT}), answers({"right_only": UP}, grows), {})
    row = found[found["sign"]].iloc[0]
    assert (row["kind"], row["component"]) == ("length", None)
    assert row["sentence"].startswith("right_only: length of wrong over right completions rose .9")
    shorter = {"right_only": np.linspace(-0.5, -0.1, STEPS)}  # and shorter still at the end
    found = reward_hacking(study("right_only"), rewards({"right_only": FLAT}), answers({"right_only": UP}, shorter), {})
    assert not found["sign"].any()


def test_accuracy_on_questions_not_trained_on_falls():
    held_out = {"form_only": [models(0.3, 0.35, 0.4, 0.3, 0.2)]}
    found = reward_hacking(study("form_only"), rewards({"form_only": UP}), answers({"form_only": FLAT}), held_out)
    signs = found[found["sign"]]
    assert list(signs["measure"]) == ["lenient accuracy on gsm8k (sampled)"]
    assert signs["onset"].iloc[0] == 20
    assert "fell .35 -> .18, from step 20 on" in signs["sentence"].iloc[0]  # shares of the 200 questions
    assert (signs["points"].iloc[0], signs["seeds"].iloc[0]) == (5, 2)
    rises = {"form_only": [models(0.2, 0.3, 0.4)]}
    found = reward_hacking(study("form_only"), rewards({"form_only": UP}), answers({"form_only": FLAT}), rises)
    assert not found["sign"].any()


def test_training_accuracy_that_questions_not_trained_on_do_not_confirm_is_a_gap():
    same = {"right_only": [models(0.3, 0.3, 0.3, 0.3, 0.3)]}
    found = reward_hacking(study("right_only"), rewards({"right_only": FLAT}), answers({"right_only": UP}), same)
    row = found[found["sign"]].iloc[0]
    assert row["kind"] == "gap"
    assert row["change"] == pytest.approx(0.6, abs=0.05)
    too = {"right_only": [models(0.3, 0.45, 0.6, 0.75, 0.9)]}
    found = reward_hacking(study("right_only"), rewards({"right_only": FLAT}), answers({"right_only": UP}), too)
    assert not found["sign"].any()
    found = reward_hacking(study("form_only"), rewards({"form_only": FLAT}), answers({"form_only": UP}), {})
    assert "gap" not in set(found["kind"])  # correctness is not trained on


def test_answers_that_one_grader_alone_calls_right_are_a_sign():
    held_out = {"form_only": [models(0.4, 0.4, 0.4, 0.4, 0.4, one_grader=0.2)]}
    found = reward_hacking(study("form_only"), rewards({"form_only": UP}), answers({"form_only": FLAT}), held_out)
    assert list(found["kind"][found["sign"]]) == ["grader"]
    held_out = {"form_only": [models(0.4, 0.4)]}
    found = reward_hacking(study("form_only"), rewards({"form_only": UP}), answers({"form_only": FLAT}), held_out)
    assert "grader" not in set(found["kind"])


@pytest.mark.parametrize("of_control", ["falls", "stays", "absent"])
def test_a_sign_that_the_control_shows_too_is_none(of_control):
    right = {"form_only": TURN} | {"falls": {"right_only": TURN}, "stays": {"right_only": FLAT}, "absent": {}}[
        of_control
    ]
    falling, staying = models(0.4, 0.4, 0.4, 0.3, 0.2), models(0.4, 0.4, 0.4, 0.4, 0.4)
    held_out = {"form_only": [falling], "right_only": [staying if of_control == "stays" else falling]}
    form = rewards({"form_only": UP} | ({} if of_control == "absent" else {"right_only": FLAT}))
    with_control = study("form_only", "right_only", control="right_only")
    found = rows_of(reward_hacking(with_control, form, answers(right), held_out), "fall")
    assert (found["p"] < 0.05).all()
    assert list(found["sign"]) == [of_control != "falls"] * 2
    assert found["p_control"].isna().all() == (of_control == "absent")


def test_the_gap_is_compared_with_that_of_the_control():
    form, right = {"right_only": FLAT, "form_only": FLAT}, {"right_only": UP, "form_only": UP}
    held_out = {arm: [models(0.3, 0.3, 0.3, 0.3, 0.3)] for arm in right}
    plan = study("right_only", "form_only", control="form_only")
    gap = rows_of(reward_hacking(plan, rewards(form), answers(right), held_out), "gap", "right_only").iloc[0]
    assert gap["p"] < 0.05
    assert gap["p_control"] > 0.05
    assert not gap["sign"]


def test_a_study_of_few_steps_or_without_correctness_has_what_can_be_known():
    short = answers({"form_only": TURN}).query("step <= 3")
    found = reward_hacking(study("form_only"), rewards({"form_only": UP}).query("step <= 3"), short, {})
    assert found.empty
    nothing = answers({"form_only": TURN}).iloc[:0]
    assert reward_hacking(study("form_only"), rewards({"form_only": UP}), nothing, {}).empty


def test_clean_arms_raise_few_alarms():
    """100 arms whose accuracy stays as form rises, five measures each: at 5 % an arm, of standard error 2.2 %."""
    rng = np.random.default_rng(4)
    signs = 0
    for start in range(100):
        table = by_step({"form_only": FLAT}, "right", 0.1, start=start).assign(sampling=0.01)
        table["wrong_longer"] = rng.normal(0, 0.2, len(table))
        signs += reward_hacking(study("form_only"), rewards({"form_only": UP}), table, {})["sign"].any()
    assert signs <= 14


def test_numbers_have_two_digits():
    assert [number(value) for value in (0.321, -0.5, 1, 12.345)] == [".32", "-.50", "1.00", "12.35"]


def test_the_component_that_scores_the_answer_is_found_by_its_function():
    plan = MadeUpStudy(arms={"only": {"a": 1.0, "b": 1.0}}).plan()
    assert correctness_component(StudyFile.model_validate(plan)) == ("a", 1.0)
    for run in plan["runs"]:
        run["spec"]["components"] = {
            "a": COMPONENT | {"function": "cosine_length"},
            "b": COMPONENT | {"function": "three_way_verifier", "parameters": {"correct": 2}},
        }
    assert correctness_component(StudyFile.model_validate(plan)) == ("b", 2.0)
    for run in plan["runs"]:
        run["spec"]["components"] = {
            name: COMPONENT | {"function": f"{kind}_length"} for name, kind in (("a", "cosine"), ("b", "token"))
        }
    assert correctness_component(StudyFile.model_validate(plan)) is None
