"""A study's own metrics: allowed settings, and the files that they make."""

from pathlib import Path

import pytest

from reward_ablation.config.sections.evaluation import COLUMNS, OF_ALL_TASKS
from reward_ablation.evaluation.score import SCHEMA
from reward_ablation.study.resolve import resolve
from reward_ablation.system.errors import StudyError


def study(config):
    return resolve(config, "study.yaml", Path())


def test_metrics_move_no_run_and_no_answer(config):
    before = study(config)
    config["evaluation"]["metrics"] = {"flat": {"function": "constant", "range": [0, 2]}}
    after = study(config)
    assert (after.keys, after.answers_folder) == (before.keys, before.answers_folder)
    assert (len(after.scores), len(before.scores)) == (len(before.runs) + 1, 0)


def test_a_changed_metric_is_scored_apart_and_its_limits_are_not_of_the_scores(config):
    def folder(**metric):
        config["evaluation"] |= {"metrics": {"flat": {"function": "constant", **metric}}}
        return study(config).scores_folder

    assert folder() == folder(range=[0, 3], higher_is_better=False) != folder(parameters={"value": 2.0})


def test_a_function_with_a_default_for_what_only_training_knows_is_a_metric(config, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text("def f(completions, log_extra=None, *, trainer_state=None, **columns): ...\n")
    config["components"]["own"] = {"function": "own.py:f"}
    config["evaluation"] |= {"metrics": {"x": {"component": "own"}}}
    assert list(study(config).config.evaluation.metrics) == ["x"]
    (tmp_path / "own.py").write_text("def f(completions, log_extra, **columns): ...\n")
    with pytest.raises(StudyError, match=r"metrics\.x: own.py:f asks for log_extra, which is known only in training"):
        study(config)


def test_no_metric_has_the_name_of_a_column_of_answers():
    assert {*SCHEMA.names, "step"} == {*COLUMNS, *OF_ALL_TASKS, "format"}
