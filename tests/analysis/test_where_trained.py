"""Tables of a study with a control. The other arms do not score its component, and have no rows for this component."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.made_up import MadeUpStudy, made_tables
from reward_ablation.analysis.evaluation.effects import arms_with_equal_settings, effects_of
from reward_ablation.analysis.study_file import StudyFile, correctness_component, read_study

NAMES = ["correctness", "format", "length", "random"]
ARMS = {
    "full": (1.0, 0.5, 0.5, 0.0),
    "no_format": (1.0, 0.0, 0.5, 0.0),
    "no_length": (1.0, 0.5, 0.0, 0.0),
    "no_correctness": (0.0, 0.5, 0.5, 0.0),
    "random_only": (0.0, 0.0, 0.0, 1.0),
}
STUDY = MadeUpStudy(
    arms={arm: dict(zip(NAMES, weights, strict=True)) for arm, weights in ARMS.items()},
    steps=8,
    problems=2,
    sample_grams=True,
    design="leave_one_out",
    control="random_only",
    where_trained=("random",),
)


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> tuple[StudyFile, dict[str, pd.DataFrame]]:
    root = tmp_path_factory.mktemp("with")
    study = read_study(STUDY.write(root))
    rules = ["provenance", "training", "gradients", "evaluation", "reward_hacking"]
    return study, made_tables(root, *rules)


def arms_with(table: pd.DataFrame, column: str) -> set[str]:
    return set(table.loc[table[column] == "random", "arm"])


def test_rows_of_a_component_are_of_the_arms_that_score_it(study):
    _, tables = study
    assert arms_with(tables["rewards_by_step"], "quantity") == {"random_only"}
    for name in ("alignment", "signals_by_step"):
        assert arms_with(tables[name], "component") == {"random_only"}, name
    for name in ("component_correlations", "similarity_by_step", "similarity_by_arm"):
        assert arms_with(tables[name], "component_b") <= {"random_only"}, name


def test_effects_of_components_are_those_of_the_design_alone(study):
    made, tables = study
    specs = {run.arm: run.spec for run in made.runs if run.arm != made.control}
    assert arms_with_equal_settings(specs) == ["full", "no_format", "no_length", "no_correctness"]
    assert [effect.component for effect in effects_of(made)] == NAMES[:3]
    assert set(tables["component_effects"]["component"]) == set(NAMES[:3])
    assert "random_only" in set(tables["paired_differences"]["arm"])  # the control is compared as any arm


def test_runs_with_other_components_are_of_one_code(study):
    _, tables = study
    code = tables["provenance"][tables["provenance"]["quantity"] == "code"]
    assert list(code["arms"]) == ["all arms"]
    assert set(tables["paired_differences"]["provenance"]) == {"same"}


def test_correctness_that_only_some_arms_score_stops_nothing(tmp_path):
    arms = {"plain": {"correctness": 0.0, "format": 1.0}, "right": {"correctness": 1.0, "format": 0.0}}
    study = read_study(MadeUpStudy(arms=arms, steps=16, where_trained=("correctness",)).write(tmp_path))
    assert correctness_component(study) == ("correctness", 1.0)
    tables = made_tables(tmp_path, "training")
    signals = tables["signals_by_step"]
    assert set(signals.loc[signals["quantity"] == "tokens_correct", "arm"]) == {"right"}
    assert np.isfinite(tables["rewards_by_step"]["mean"].to_numpy(dtype=float)).all()


@pytest.mark.parametrize(
    ("parameters", "found"),
    [({"correct": 0.0}, ("verdict", 0.0)), ({"correct": -1.0}, ("exact", 1.0)), ({"missing": 1.0}, ("exact", 1.0))],
)
def test_a_component_that_scores_another_answer_as_high_as_a_right_one_does_not_tell_which_are_right(parameters, found):
    made = StudyFile.model_validate(MadeUpStudy(arms={"one": {"verdict": 1.0, "exact": 1.0}}).plan())
    functions = {"verdict": ("three_way_verifier", parameters), "exact": ("unit_tests", {})}
    for run in made.runs:
        for name, (function, given) in functions.items():
            known = run.spec.components[name]
            run.spec.components[name] = known.model_copy(update={"function": function, "parameters": given})
    assert correctness_component(made) == found
