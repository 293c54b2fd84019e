"""Reading a pilot from a made-up study on disk."""

import json

import numpy as np
import pandas as pd
import pytest

from analysis.made_up import MadeUpStudy
from reward_ablation.analysis.study_file import read_study
from reward_ablation.design.pilot import read_pilot
from reward_ablation.study.primary import Contrast, Question
from reward_ablation.system.errors import StudyError

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


def test_greedy_answers_and_metrics_of_several_samples_have_no_noise_that_samples_take_away(folder):
    for question in (asked(mode="greedy"), asked(metric="pass@3")):
        found = read_pilot(folder, question, "pilot")
        assert not any(found.sample.values())
        assert all(value > 0 for value in found.interaction.values())


def test_runs_that_are_not_finished_do_not_count(folder, tmp_path):
    MadeUpStudy(steps=1, rollouts=2, seeds=(0, 1, 2)).write(tmp_path)
    for run in read_study(tmp_path / "study.json").runs:
        if run.seed == 2:
            (tmp_path / run.folder / "run.json").unlink()
    assert read_pilot(tmp_path, asked(), "pilot").seeds == 2


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"dataset": "math"}, "has no data set math; its data sets: gsm8k_test"),
        ({"metric": "pass@64"}, "has no metric pass@64 in mode sampled"),
    ],
)
def test_what_a_pilot_lacks_is_said_in_a_line(folder, changes, says):
    with pytest.raises(StudyError, match=says):
        read_pilot(folder, asked(**changes), "pilot")


def test_a_folder_without_a_study_is_refused(tmp_path):
    with pytest.raises(
        StudyError, match=r"pilot: elsewhere: not a study's results folder, because it has no study\.json"
    ):
        read_pilot(tmp_path, asked(), "elsewhere")
    (tmp_path / "study.json").write_text(json.dumps({"name": 1}))
    with pytest.raises(StudyError, match=r"study\.json"):
        read_pilot(tmp_path, asked(), "elsewhere")
