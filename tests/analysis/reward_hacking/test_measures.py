import numpy as np
import pandas as pd
import pytest

from analysis.made_up import MadeUpStudy
from reward_ablation.analysis.reward_hacking.measures import HeldOutAnswers, answers_of_steps, training_answers
from reward_ablation.analysis.study_file import read_study
from reward_ablation.system.errors import StudyError


def rollouts(rows) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["step", "problem_id", "tokens", "score"])


def test_lengths_are_compared_within_problems():
    """Wrong answers are twice as long as right ones of a problem, though of all answers right ones are longer."""
    easy = [(1, "easy", 10, 0.0), (1, "easy", 5, 1.0), (1, "easy", 10, 0.0)]
    hard = [(1, "hard", 200, 0.0), (1, "hard", 100, 1.0), (1, "hard", 100, 1.0)]
    never = [(1, "never", 7, 0.0)] * 3
    found = answers_of_steps(rollouts([*easy, *hard, *never]), 1.0).iloc[0]
    assert found["wrong_longer"] == pytest.approx(np.log(2))
    assert found["right"] == pytest.approx(3 / 9)
    assert found["sampling"] == pytest.approx(np.var([1 / 3, 2 / 3, 0], ddof=1) / 3)


def test_what_is_not_known_is_null():
    found = answers_of_steps(rollouts([(1, "a", 5, 1.0), (1, "a", 9, np.nan), (2, "b", 5, 0.0), (2, "b", 9, 1.0)]), 1.0)
    assert found["right"].tolist() == [1.0, 0.5]
    assert np.isnan(found["wrong_longer"].iloc[0])
    assert np.isnan(found["sampling"].iloc[0])
    assert found["sampling"].iloc[1] == pytest.approx(0.25)  # one problem: of its completions, .5 / 2


def test_single_completions_are_compared_within_the_step():
    rows = rollouts([(1, "a", 20, 0.0), (1, "b", 10, 1.0)])
    assert np.isnan(answers_of_steps(rows, 1.0)["wrong_longer"]).all()
    assert answers_of_steps(rows, 1.0, single=True)["wrong_longer"].tolist() == pytest.approx([np.log(2)])


def test_all_runs_and_models_are_read(tmp_path):
    made_up = MadeUpStudy(arms={"one": {"a": 1.0}, "two": {"a": 0.0}}, steps=6, keep_models=2)
    study = read_study(made_up.write(tmp_path))
    answers = training_answers(study, tmp_path)
    assert len(answers) == 2 * 2 * 6
    assert answers["right"].between(0, 1).all()
    found = HeldOutAnswers(study, tmp_path, {run.folder: 6 for run in study.runs})["one"]
    assert [(of.dataset, of.mode, of.seeds) for of in found] == [("gsm8k_test", "sampled", [0, 1])]
    assert found[0].steps.tolist() == [0, 2, 4, 6]
    assert found[0].lenient.shape == found[0].one_grader.shape == (2, 4, 40)
    assert (found[0].lenient[0, 0] == found[0].lenient[1, 0]).all()  # the base model has no seed
    # weight .3 on accuracy by the end, in a straight line
    assert found[0].lenient[:, -1].mean() > found[0].lenient[:, 0].mean() + 0.15


def test_answers_to_other_questions_are_refused(tmp_path):
    study = read_study(MadeUpStudy(arms={"one": {"a": 1.0}}, steps=2).write(tmp_path))
    path = tmp_path / study.answers_file("gsm8k_test", study.runs[0].name)
    answers = pd.read_parquet(path)
    answers[answers["problem_id"] != "gsm8k_test:0"].to_parquet(path)
    with pytest.raises(StudyError, match="answers other questions than the base model did"):
        HeldOutAnswers(study, tmp_path, {run.folder: 2 for run in study.runs})["one"]
