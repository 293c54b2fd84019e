"""Decisions of a sequential study in its table of differences, summary and figure."""

from itertools import product

import pandas as pd
import pytest

from analysis.made_up import MadeUpStudy
from reward_ablation.analysis.evaluation.tables import with_decisions
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.figures.evaluation import seeds_and_decision
from reward_ablation.report.summary import sequential

ROW = {"estimate": 0.5, "low": 0.4, "high": 0.6, "p": 0.01, "p_holm": 0.02, "p_equivalent": 0.3, "seeds": 3}
ROW |= {"pooled_low": 0.45, "pooled_high": 0.55}


@pytest.fixture
def given():
    """A study with one contrast that was closed at the first look, and one that is open after the second."""
    content = MadeUpStudy(seeds=(0, 1, 2)).plan()
    baseline, one, other, *_ = [arm["name"] for arm in content["arms"]]

    def at(arm, decision, estimate):
        numbers = {"estimate": estimate, "low": estimate - 0.1, "high": estimate + 0.1, "p": 0.001, "p_holm": 0.04}
        return {"arm": arm, "against": baseline, "decision": decision, "boundary": 0.01, **numbers}

    first, second = [at(one, "different", 0.2), at(other, "open", 0.1)], [at(other, "open", 0.15)]
    taken = [
        {"seeds": seeds, "date": "2026-01-31T12:00:00Z", "contrasts": contrasts, "error_left": 0.03}
        for seeds, contrasts in ((2, first), (3, second))
    ]
    plan = {"looks": [2, 3, 5], "stop": "pocock", "margin": None, "level": 0.05, "question": "q", "evaluation": "e"}
    record = {**plan, "arms": {}, "declared": "2026-01-31T11:00:00Z", "runs_then": 0, "taken": taken}
    question = {"dataset": "gsm8k_test", "mode": "greedy", "metric": "accuracy_strict"}
    question["contrasts"] = [{"arm": arm, "against": baseline} for arm in (one, other)]
    return StudyFile.model_validate({**content, "sequential": record, "primary": question}), baseline, one, other


def table(baseline, *arms):
    families = product(arms, [baseline], ["primary", "exploratory"])
    return pd.DataFrame(families, columns=["arm", "baseline", "family"]).assign(**ROW)


def test_the_answer_of_a_contrast_is_that_of_its_last_look(given):
    study, baseline, one, other = given
    decided = with_decisions(table(baseline, one, other), study).set_index(["arm", "family"])
    columns = ["estimate", "low", "high", "p", "p_holm", "seeds", "decision"]
    assert decided.loc[(one, "primary"), columns].tolist() == [0.2, 0.1, 0.2 + 0.1, 0.001, 0.04, 2, "different"]
    assert decided.loc[(other, "primary"), ["estimate", "seeds", "decision"]].tolist() == [0.15, 3, "open"]
    assert decided.loc[(one, "primary"), ["p_equivalent", "pooled_low", "pooled_high"]].isna().all()
    untouched = decided.loc[(one, "exploratory")]
    assert untouched[[*ROW]].tolist() == [*ROW.values()]
    assert pd.isna(untouched["decision"])
    for record in (None, study.sequential.model_copy(update={"in_force": False})):  # a list of seeds has no decisions
        found = with_decisions(table(baseline, one, other), study.model_copy(update={"sequential": record}))
        assert found["decision"].isna().all()
        pd.testing.assert_frame_equal(found.drop(columns="decision"), table(baseline, one, other))


def test_seeds_that_a_look_lost_are_not_counted(given):
    study, baseline, one, other = given
    content = study.model_dump(by_alias=True)
    for look in content["sequential"]["taken"]:
        look["contrasts"][0]["seeds"] = 1  # of the look's 2 and 3
    study = StudyFile.model_validate(content)
    decided = with_decisions(table(baseline, one, other), study).query("family == 'primary'")
    assert decided["seeds"].tolist() == [1, 1]
    assert seeds_and_decision(study, other, baseline) == "\n1 seed, open"
    assert f"{one} against {baseline}: different with 1 seed;" in " ".join(sequential(study))
