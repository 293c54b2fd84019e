"""The plan: which runs train and are evaluated, the reasons in words, and the hours, from runs on disk."""

from __future__ import annotations

import copy
import json

import pytest

from reward_ablation.start.decide import Decisions, with_diverged
from reward_ablation.start.estimates import BASE, FINAL, KEPT, evaluation_of
from reward_ablation.start.plan import plan_of, plan_text, summary
from reward_ablation.start.status import State, read_status, status_text
from reward_ablation.study.core_digest import command_modules
from reward_ablation.study.resolve import resolve
from reward_ablation.study.run_folder import DIVERGED
from reward_ablation.system.files import write_json
from reward_ablation.system.locks import take

from .left_behind import LeftBehind, attempt

QUESTION = "primary question: accuracy_strict on test (greedy): b against a"


def plan_for(config, root, **kept):
    study = resolve(config, "study.yaml", root)
    return plan_of(Decisions(study, **kept), evaluations=(), scorings=0)


def finish(config, root, *names, seconds=20.0, **changes):
    """Write the records of these arms' runs, of ten steps in two attempts."""
    left = LeftBehind(resolve(config, "study.yaml", root))
    ends = ((0, 4, 0.4 * seconds), (4, 10, 0.6 * seconds))
    attempts = [dict(zip(("from_step", "to_step", "wall_seconds"), each, strict=True)) for each in ends]
    for run in left.runs:
        if run.arm in names:
            left.finish(run, *attempts, **{"steps": 10, **changes})
    return left.study


@pytest.fixture
def config(config):
    config["launch"] = {"gpus": 2}
    return config


def test_reasons_are_told_once_with_their_arms_and_seeds(config, tmp_path):
    finish(config, tmp_path, "a", "b", seconds=3600)
    config["seeds"] = [0, 1, 2, 4]
    config["arms"]["arms"]["b"]["weights"]["format"] = 0.25
    config["arms"]["arms"]["c"] = {"weights": {"format": 1}}
    keys = resolve(config, "s", tmp_path).keys
    plan = plan_for(config, tmp_path)
    assert plan_text(plan).splitlines() == [
        "study study: 10 of 12 runs to train",
        "",
        "train, 2 runs: new seed",
        f"    arm a  key {keys['a']}  seeds 2, 4",
        "train, 4 runs: format 0.5 → 0.25",
        f"    arm b  key {keys['b']}  seeds 0-2, 4",
        "train, 4 runs: new arm",
        f"    arm c  key {keys['c']}  seeds 0-2, 4",
        "no training, 2 runs: trained",
        f"    arm a  key {keys['a']}  seeds 0-1",
        "",
        "base model and training set: made again; if the bytes differ, the next start trains all runs again",
        "",
        "primary question: accuracy_strict on test (greedy): b, c against a; to be declared at the next",
        "    start, after 4 runs were there",
        "",
        "2 finished runs of other configs here; `reward-ablation prune` lists what is not needed",
        "",
        # 10 runs of 10 steps, an hour for 10 steps, 2 GPUs: 10 x 1 x 2.
        "about 20 GPU hours: 100 steps of 360 s on 2 GPUs, from 4 finished runs",
    ]
    assert summary(plan).startswith(
        "study study: 10 runs to train (new seed; format 0.5 → 0.25; 1 more reason); about 20 GPU hours"
    )


def test_the_nearest_earlier_spec_of_the_arm_is_compared(config, tmp_path):
    finish(config, tmp_path, "b")
    config["training"]["learning_rate"] = 1e-5
    config["arms"]["arms"]["b"]["weights"]["format"] = 0.25
    finish(config, tmp_path, "b")
    config["training"]["learning_rate"] = 1e-4
    reasons = {planned.run.arm: planned.why for planned in plan_for(config, tmp_path).runs}
    assert reasons == {"a": "new arm", "b": "learning_rate 1e-05 → 0.0001"}


def test_arms_on_other_numbers_of_gpus_are_told_apart(config, tmp_path):
    config["arms"]["arms"]["b"]["launch"] = {"gpus": 4, "nodes": 2}
    finish(config, tmp_path, "a", seconds=3600)
    finish(config, tmp_path, "b", seconds=36000)
    config["seeds"] = [0, 1, 2]
    plan = plan_for(config, tmp_path)
    # an hour on 2 GPUs, 10 hours on 4
    assert (plan.estimate.hours, plan.estimate.device_hours) == (pytest.approx(11), pytest.approx(42))
    assert "about 42 GPU hours: 20 steps of 1980 s on 2 to 4 GPUs, from 4 finished runs" in plan_text(plan)
    config["arms"]["arms"]["b"]["launch"]["nodes"] = 1  # which says nothing of the time
    assert plan_for(config, tmp_path).estimate.unknown == 0
    config["arms"]["arms"]["b"]["launch"]["gpus"] = 8
    assert plan_for(config, tmp_path).estimate.unknown == 3


def test_hours_on_the_cpu_are_of_all_processes_and_threads(config, tmp_path):
    config["launch"] = {"gpus": 0, "processes": 2, "threads": 3}
    text = "CPU hours: no estimate, because no run of this study has finished in 2 processes"
    assert plan_text(plan_for(config, tmp_path)).splitlines()[-1] == text
    finish(config, tmp_path, "a", seconds=3600)
    config["seeds"] = [0, 1, 2]
    # a third run of one arm, three of the other: 4 runs of an hour
    assert "about 24 CPU hours: 40 steps of 360 s in 2 processes, from 2" in plan_text(plan_for(config, tmp_path))


def test_the_number_of_steps_is_that_of_earlier_runs_where_no_setting_says_it(config, tmp_path):
    del config["training"]["max_steps"]
    assert plan_for(config, tmp_path).runs[0].steps_left is None
    finish(config, tmp_path, "a", steps=12)
    config["seeds"] = [0, 1, 2]
    assert {planned.steps_left for planned in plan_for(config, tmp_path).training} == {12}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"code": "0" * 16}, "training code changed"),
        ({"inputs": {"problems": "0" * 64, "model": "1" * 64}}, "its base model and its training set changed"),
        ({"seed": 7}, "its run.json is of another config"),
    ],
)
def test_a_run_of_other_code_or_inputs_is_trained_again(config, tmp_path, changes, why):
    left = LeftBehind(finish(config, tmp_path, "a", "b"))
    for file in (left.study.model_file, left.study.problems_file):
        left.made(file, "as it is now")
    assert plan_for(config, tmp_path).training == []
    finish(config, tmp_path, "a", **changes)
    plan = plan_for(config, tmp_path)
    assert [(planned.run.arm, planned.why) for planned in plan.training] == [("a", why)] * 2
    assert plan_for(config, tmp_path, code_counts=False).training == []


def test_an_interrupted_run_goes_on_from_its_last_whole_checkpoint_under_the_same_code(config, tmp_path):
    left = LeftBehind(finish(config, tmp_path, "b", seconds=36))
    run = left.runs[0]
    for step in (2, 9):
        left.work(run, checkpoint=step)
    work = left.folder(run) / ".work"
    (work / "checkpoint-10").mkdir()  # it was being written
    [first, second] = plan_for(config, tmp_path).training
    assert first.why == "interrupted at step 9 of 10, goes on from there"
    assert (first.steps_left, second.steps_left) == (1, 10)
    with take(work.with_name(".lock")):
        assert plan_for(config, tmp_path).training[0].why == "is being trained now, at step 9 of 10"
    owner = json.loads((work / "owner.json").read_text())
    modules = {**command_modules(run.arm_spec.functions), "reward_ablation.training.around.parts": "0"}
    for other in ({"code": "0" * 16}, {"modules": modules}):
        write_json({**owner, **other}, work / "owner.json")
        assert plan_for(config, tmp_path).training[0].why == (
            "interrupted at step 9 under other code or data, begins anew"
        )


def test_runs_behind_a_link_are_there(config, tmp_path):
    """Somebody has moved an arm's runs to another disk: Snakemake goes through the link."""
    study = finish(config, tmp_path, "a", "b")
    folder = tmp_path / study.config.root / "runs" / study.folders[study.keys["a"]]
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    assert plan_for(config, tmp_path).training == []


def test_arms_that_share_runs_are_noted(config, tmp_path):
    study = finish(config, tmp_path, "a")
    arms = config["arms"]["arms"]
    config["arms"]["arms"] = {"first": arms["a"], "b": arms["b"], "again": copy.deepcopy(arms["b"])}
    plan = plan_for(config, tmp_path)
    assert plan.notes == [
        f"arm first: its runs are those in runs/a-{study.keys['a']}, of the same spec",
        "arm again: same runs as arm b, their specs are equal",
    ]
    assert len(plan.training) == 2


@pytest.fixture
def sampled(config):
    config["evaluation"]["samples"] = 3
    return config


def plan_with(config, root, *asked, **settings):
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


def test_without_an_earlier_evaluation_there_is_no_estimate(sampled, tmp_path):
    plan = plan_with(sampled, tmp_path, (BASE, 0), (FINAL, 0), (FINAL, 1))
    assert plan_text(plan).splitlines()[0] == "study study: 4 of 4 runs to train, 3 evaluations to make"
    assert plan_text(plan).splitlines()[-1] == (
        "3 evaluations to make: 1 of the base model, 2 of trained runs; GPU hours: no estimate, because "
        "no evaluation on these data is on record"
    )
    for unusable in ({"wall_seconds": 0}, {"wall_seconds": None}, {"spec": None}, {"models": 0}):
        record(sampled, tmp_path, "base", 60, **unusable)
        assert plan_with(sampled, tmp_path, (BASE, 0)).evaluations.unknown == 1


def test_hours_are_those_of_earlier_evaluations_for_the_number_of_answers(sampled, tmp_path):
    """Four answers to a problem took half an hour, the median of three: six take three quarters of an hour."""
    for model, seconds in (("base", 1000), ("a-00000000/seed0", 1800), ("a-00000000/seed1", 9000)):
        record(sampled, tmp_path, model, seconds)
    sampled["evaluation"]["samples"] = 5
    plan = plan_with(sampled, tmp_path, (BASE, 0), (FINAL, 0))
    assert (plan.evaluations.device_hours, plan.evaluations.earlier) == (pytest.approx(1.5), 3)
    assert summary(plan).endswith(
        "; 2 evaluations to make: 1 of the base model, 1 of trained runs; about 1.5 GPU hours, "
        "from 3 earlier evaluations"
    )
    record(sampled, tmp_path, "base", 3600)  # one under the present settings comes first
    again = plan_with(sampled, tmp_path, (BASE, 0), (FINAL, 0)).evaluations
    assert (again.device_hours, again.earlier) == (pytest.approx(2), 1)


def test_an_evaluation_on_another_device_says_nothing(sampled, tmp_path):
    record(sampled, tmp_path, "base", 1800)
    sampled["launch"] = {"gpus": 0, "threads": 4}
    assert plan_with(sampled, tmp_path, (BASE, 0)).evaluations.unknown == 1
    record(sampled, tmp_path, "base", 1800, spec={"evaluation": {"greedy": True, "samples": 3}, "device": "cpu"})
    plan = plan_with(sampled, tmp_path, (BASE, 0))
    assert "about 2 CPU hours, from 1 earlier evaluation" in plan_text(plan)  # half an hour of four threads


def test_kept_models_are_as_many_evaluations_of_one_model(sampled, tmp_path):
    """Ten steps keep models after steps 3, 6 and 9."""
    sampled["keep_models"] = 3
    record(sampled, tmp_path, "a-00000000/seed0", 3600, models=2, kind=".steps")
    plan = plan_with(sampled, tmp_path, (KEPT, 0), (FINAL, 0))
    assert plan.evaluations.device_hours == pytest.approx(3 * 0.5 + 0.5)
    assert "2 evaluations to make: 1 of trained runs, 1 of models that runs kept; about 2 GPU" in plan_text(plan)
    del sampled["training"]["max_steps"]
    unknown = plan_with(sampled, tmp_path, (KEPT, 0), (FINAL, 0))
    assert plan_text(unknown).endswith("; 1 of them of unknown length")


def test_evaluations_and_scorings_are_told_where_nothing_is_trained(sampled, tmp_path):
    sampled["evaluation"]["metrics"] = {"flat": {"function": "constant"}, "form": {"component": "format"}}
    study = resolve(sampled, "study.yaml", tmp_path)
    left = LeftBehind(study)
    for run in left.runs:
        left.finish(run, attempt(10))
    plan = plan_with(sampled, tmp_path, (FINAL, 3))
    first = "study study: 0 of 4 runs to train, 1 evaluation to make, 5 files of answers to score"
    assert plan_text(plan).splitlines()[0] == first
    assert summary(plan).startswith("study study: 1 evaluation to make: 1 of trained runs; GPU hours: no estimate")
    plan = plan_of(Decisions(study), evaluations=(), scorings=5)
    line = "5 files of answers to score, by the metrics flat, form"
    assert plan_text(plan).splitlines()[-1] == line
    assert summary(plan) == f"study study: {line}"


def test_a_run_that_diverged_is_left_out_and_named(config, tmp_path):
    study = resolve(config, "s", tmp_path)
    assert with_diverged(study) is study
    first, *others = study.runs
    LeftBehind(study).diverge(study.runs[first])
    found = with_diverged(study)
    assert found.diverged == {first: 2}
    assert found.sound_runs == others
    assert found.warnings[-1].endswith(f"left out of evaluations, tables and figures: {first} at step 2")
    assert not any(first in file for file in found.scores)
    assert found.digest != study.digest  # so that study.json is written again
    plan = plan_of(Decisions(found))
    assert [planned.run.name for planned in plan.training] == others
    assert "no training, 1 run: diverged at step 2, left out; to train it again, delete its folder" in plan_text(plan)
    status = read_status(Decisions(found), [])
    assert status.runs[0].state is State.DIVERGED
    assert "1 diverged, " in status_text(status)


@pytest.mark.parametrize("changes", [{"code": "other"}, {"spec": {}}])
def test_a_divergence_of_other_code_or_of_another_config_does_not_count(config, tmp_path, changes):
    study = resolve(config, "s", tmp_path)
    folder = LeftBehind(study).diverge(next(iter(study.runs.values())), **changes)
    assert with_diverged(study).diverged == {}
    (folder / DIVERGED).write_text("{")
    assert with_diverged(study).diverged == {}
