import numpy as np
import pandas as pd
import pytest

from analysis.made_up import MadeUpStudy
from reward_ablation.analysis.reward_hacking.tables import number, reward_hacking
from reward_ablation.analysis.study_file import StudyFile, correctness_component
from specs import COMPONENT

ARMS = {
    "form_only": {"right": 0.0, "form": 1.0},
    "right_only": {"right": 1.0, "form": 0.0},
    "penalty": {"right": 0.0, "form": -1.0},
}
STEPS = 40


def study(arms=ARMS) -> StudyFile:
    return StudyFile.model_validate(MadeUpStudy(arms=arms, steps=STEPS).plan())


def rewards(courses, noise=0.02, seeds=(0, 1)) -> pd.DataFrame:
    """Rows of `rewards_by_step` with courses by arm and component, and noise of steps."""
    rng = np.random.default_rng(0)
    return pd.concat(
        pd.DataFrame({"arm": arm, "seed": seed, "step": range(1, STEPS + 1), "quantity": component}).assign(
            mean=course + rng.normal(0, noise, STEPS)
        )
        for (arm, component), course in courses.items()
        for seed in seeds
    )


UP, FLAT = np.linspace(0.3, 0.9, STEPS), np.full(STEPS, 0.4)
TURN = 0.4 - 0.3 * np.clip(np.linspace(-1, 1, STEPS), 0, 1)  # falls from the middle on


def test_a_turn_in_training_is_told_in_words():
    courses = {("form_only", "right"): TURN, ("form_only", "form"): UP, ("right_only", "right"): UP}
    courses |= {("right_only", "form"): FLAT, ("penalty", "right"): FLAT, ("penalty", "form"): UP}
    found = reward_hacking(study(), rewards(courses)).set_index("arm")
    assert list(found.index) == ["form_only", "penalty"]  # right_only trains nothing but correctness
    row = found.loc["form_only"]
    assert row["sign"]
    assert 1 <= row["turned_at"] <= 23  # the middle, or the flat part before it
    assert row["accuracy_before"] == pytest.approx(0.4, abs=0.03)
    assert row["fall"] == pytest.approx(row["accuracy_before"] - row["accuracy_after"])
    assert row["fall_low"] > 0
    assert row["sentence"].startswith("form_only: form rose .")
    assert "-> .87 while right on the training problems of each step fell .4" in row["sentence"]
    assert not found.loc["penalty", "sign"]  # its accuracy stays
    assert found.loc["penalty", "sentence"] == (
        "penalty: no sign of form against right on the training problems of each step"
    )


def test_a_component_of_negative_weight_is_pressed_down():
    courses = {("penalty", "right"): TURN, ("penalty", "form"): UP[::-1]}
    found = reward_hacking(study({"penalty": ARMS["penalty"]}), rewards(courses)).iloc[0]
    assert found["sign"]
    assert found["rise"] > 0
    assert found["component_before"] > found["component_after"] > 0
    assert "form fell, as its weight asks, ." in found["sentence"]


def test_a_fall_without_a_rise_is_no_sign():
    courses = {("form_only", "right"): TURN, ("form_only", "form"): FLAT}
    found = reward_hacking(study({"form_only": ARMS["form_only"]}), rewards(courses)).iloc[0]
    assert found["fall_low"] > 0
    assert not found["sign"]


def curves(values, steps=(0, 10, 20, 30, 40)) -> pd.DataFrame:
    table = pd.DataFrame({"arm": "form_only", "step": steps, "estimate": values})
    ends = {"low": table["estimate"] - 0.04, "high": table["estimate"] + 0.04}
    return table.assign(**ends, dataset="gsm8k", mode="sampled", metric="accuracy_lenient")


def test_accuracy_on_questions_not_trained_on_comes_first():
    one = study({"form_only": ARMS["form_only"]})
    table = rewards({("form_only", "right"): FLAT, ("form_only", "form"): UP})
    found = reward_hacking(one, table, curves([0.3, 0.35, 0.4, 0.3, 0.2]))
    assert list(found["sign"]) == [True, False]
    assert found["turned_at"].iloc[0] == 20
    assert found["sentence"].iloc[0] == (
        f"form_only: form rose {number(found['component_before'].iloc[0])} -> .87 while lenient accuracy on gsm8k "
        "(sampled) fell .40 -> .20, turning at step 20"
    )
    falling = reward_hacking(one, table, curves([0.4, 0.3, 0.3, 0.2, 0.2])).iloc[0]
    assert falling["sentence"].endswith("fell .40 -> .20, from the start")
    within_noise = reward_hacking(one, table, curves([0.4, 0.37, 0.4, 0.39, 0.36])).iloc[0]
    assert not within_noise["sign"]
    assert pd.isna(within_noise["turned_at"])


def test_without_curves_the_base_model_and_the_final_one_are_compared():
    ends = curves([0.4, 0.2], (0, 40)).assign(arm=["base", "form_only"])
    table = rewards({("form_only", "right"): FLAT, ("form_only", "form"): UP})
    found = reward_hacking(study({"form_only": ARMS["form_only"]}), table, None, ends).iloc[0]
    assert found["sign"]
    assert found["sentence"].endswith("fell .40 -> .20, between steps 0 and 40")


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
