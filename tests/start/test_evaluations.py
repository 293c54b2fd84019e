"""Evaluations of the next start: their number, kinds and hours, from the records of earlier evaluations."""

import pytest

from reward_ablation.start.decide import Decisions
from reward_ablation.start.estimates import BASE, FINAL, KEPT, evaluation_of
from reward_ablation.start.plan import plan_of, plan_text, summary
from reward_ablation.study.resolve import resolve
from reward_ablation.system.files import write_json

from .left_behind import LeftBehind, attempt


@pytest.fixture
def config(config):
    config["launch"] = {"gpus": 2}
    config["evaluation"]["samples"] = 3
    return config


def plan_for(config, root, *asked, **settings):
    """The plan of a start that makes these evaluations: kinds with the number of a run."""
    study = resolve(config, "study.yaml", root)
    [dataset] = study.datasets
    names = list(study.runs)
    folder = study.answers_folder
    evaluations = []
    for kind, number in asked:
        model = "base" if kind == BASE else names[number]
        ending = ".steps" if kind == KEPT else ""
        evaluations.append(evaluation_of(f"{folder}/{model}/{dataset}{ending}.parquet", model))
    return plan_of(Decisions(study), evaluations=evaluations)


def record(config, root, model, seconds, models=1, kind="", **changes):
    """Write the record of an earlier evaluation under the config's settings."""
    study = resolve(config, "study.yaml", root)
    [dataset] = study.datasets
    spec = {"evaluation": study.config.evaluation.model_dump(), "device": "cuda"}
    path = root / study.config.root / study.answers_folder / model / f"{dataset}{kind}.json"
    found = {"spec": spec, "models": [f"model-step{number}" for number in range(models)], "wall_seconds": seconds}
    write_json({**found, **changes}, path)


def test_without_an_earlier_evaluation_there_is_no_estimate(config, tmp_path):
    plan = plan_for(config, tmp_path, (BASE, 0), (FINAL, 0), (FINAL, 1))
    assert plan_text(plan).splitlines()[0] == "study study: 4 of 4 runs to train, 3 evaluations to make"
    assert plan_text(plan).splitlines()[-1] == (
        "3 evaluations to make: 1 of the base model, 2 of trained runs; GPU hours: no estimate, because "
        "no evaluation on these data is on record"
    )
    for unusable in ({"wall_seconds": 0}, {"wall_seconds": None}, {"spec": None}, {"models": 0}):
        record(config, tmp_path, "base", 60, **unusable)
        assert plan_for(config, tmp_path, (BASE, 0)).evaluations.unknown == 1


def test_hours_are_those_of_earlier_evaluations_for_the_number_of_answers(config, tmp_path):
    """Four answers to a problem took half an hour, the median of three: six take three quarters of an hour."""
    for model, seconds in (("base", 1000), ("a-00000000/seed0", 1800), ("a-00000000/seed1", 9000)):
        record(config, tmp_path, model, seconds)
    config["evaluation"]["samples"] = 5
    plan = plan_for(config, tmp_path, (BASE, 0), (FINAL, 0))
    assert (plan.evaluations.device_hours, plan.evaluations.earlier) == (pytest.approx(1.5), 3)
    assert summary(plan).endswith(
        "; 2 evaluations to make: 1 of the base model, 1 of trained runs; about 1.5 GPU hours, "
        "from 3 earlier evaluations"
    )
    record(config, tmp_path, "base", 3600)  # one under the present settings comes first
    again = plan_for(config, tmp_path, (BASE, 0), (FINAL, 0)).evaluations
    assert (again.device_hours, again.earlier) == (pytest.approx(2), 1)


def test_an_evaluation_on_another_device_says_nothing(config, tmp_path):
    record(config, tmp_path, "base", 1800)
    config["launch"] = {"gpus": 0, "threads": 4}
    assert plan_for(config, tmp_path, (BASE, 0)).evaluations.unknown == 1
    record(config, tmp_path, "base", 1800, spec={"evaluation": {"greedy": True, "samples": 3}, "device": "cpu"})
    plan = plan_for(config, tmp_path, (BASE, 0))
    assert "about 2 CPU hours, from 1 earlier evaluation" in plan_text(plan)  # half an hour of four threads


def test_kept_models_are_as_many_evaluations_of_one_model(config, tmp_path):
    """Ten steps keep models after steps 3, 6 and 9."""
    config["keep_models"] = 3
    record(config, tmp_path, "a-00000000/seed0", 3600, models=2, kind=".steps")
    plan = plan_for(config, tmp_path, (KEPT, 0), (FINAL, 0))
    assert plan.evaluations.device_hours == pytest.approx(3 * 0.5 + 0.5)
    assert "2 evaluations to make: 1 of trained runs, 1 of models that runs kept; about 2 GPU" in plan_text(plan)
    del config["training"]["max_steps"]
    unknown = plan_for(config, tmp_path, (KEPT, 0), (FINAL, 0))
    assert plan_text(unknown).endswith("; 1 of them of unknown length")


def test_evaluations_and_scorings_are_told_where_nothing_is_trained(config, tmp_path):
    config["evaluation"]["metrics"] = {"flat": {"function": "constant"}, "form": {"component": "format"}}
    study = resolve(config, "study.yaml", tmp_path)
    left = LeftBehind(study)
    for run in left.runs:
        left.finish(run, attempt(10))
    plan = plan_for(config, tmp_path, (FINAL, 3))
    first = "study study: 0 of 4 runs to train, 1 evaluation to make, 5 files of answers to score"
    assert plan_text(plan).splitlines()[0] == first
    assert summary(plan).startswith("study study: 1 evaluation to make: 1 of trained runs; GPU hours: no estimate")
    plan = plan_of(Decisions(study), evaluations=(), scorings=5)
    line = "5 files of answers to score, by the metrics flat, form"
    assert plan_text(plan).splitlines()[-1] == line
    assert summary(plan) == f"study study: {line}"
