"""Effects of the steps that arms take, from made-up Gram matrices whose truth is known."""

import numpy as np
import pytest

from analysis.made_up import MadeUpStudy, made_tables
from reward_ablation.analysis.gradients.tables import SCHEMAS, alignment
from reward_ablation.analysis.study_file import StudyFile


def test_effects_are_means_over_steps_and_then_over_seeds():
    study = StudyFile.model_validate(MadeUpStudy(arms={"x": {"a": 1.0, "b": 0.0}}, seeds=(0, 1)).plan())
    nothing = np.array([np.nan, np.nan])  # a step whose advantages are all 0
    effects = [{1: np.array([1.0, np.nan]), 2: np.array([2.0, 4]), 3: nothing}, {1: np.array([6.0, np.nan])}]
    found = alignment("x", study.runs_of("x"), effects, study).set_index("component")
    assert found.loc["a", "estimate"] == (1.5 + 6) / 2
    assert found.loc["b", "estimate"] == 4
    # Student's t at .975 with one degree of freedom is 12.706; the standard error of 1.5 and 6 is 2.25
    assert found.loc["a", "high"] - 3.75 == pytest.approx(12.7062 * 2.25, rel=1e-4)
    # steps 1 and 2, whatever seeds know them
    assert found.loc["a", ["weight", "seeds", "steps", "interval"]].tolist() == [1, 2, 2, "seeds"]
    assert found.loc["b", ["low", "high", "interval"]].isna().all()  # known at one step of one seed


def test_without_gram_matrices_the_tables_are_empty_and_the_log_says_why(tmp_path, capsys):
    MadeUpStudy(steps=2).write(tmp_path)
    found = made_tables(tmp_path, "gradients")
    for name in SCHEMAS:
        assert found[name].empty == (name not in ("similarity_by_step", "similarity_by_arm")), name
    assert "4 measured steps left out of alignment and split halves: there is no such file" in capsys.readouterr().out
