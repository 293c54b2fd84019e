"""The plan: which runs will train, the reasons in words, and the hours, from runs on disk."""

import copy
import json

import pytest

from reward_ablation.start.decide import Decisions
from reward_ablation.start.plan import plan_of, plan_text, summary
from reward_ablation.study.core_digest import command_modules, training_modules
from reward_ablation.study.resolve import resolve
from reward_ablation.system.files import write_json
from reward_ablation.system.locks import take

from .left_behind import LeftBehind

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


def test_before_anything_was_trained(config, tmp_path):
    assert plan_text(plan_for(config, tmp_path)).splitlines() == [
        "study study: 4 of 4 runs to train",
        "",
        "train, 4 runs: not trained yet",
        f"    arm a  key {resolve(config, 's', tmp_path).keys['a']}  seeds 0-1",
        f"    arm b  key {resolve(config, 's', tmp_path).keys['b']}  seeds 0-1",
        "",
        f"{QUESTION}; to be declared at the next start,",
        "    before the first run",
        "",
        "GPU hours: no estimate, because no run of this study has finished on 2 GPUs",
    ]


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


def test_changed_modules_are_named(config, tmp_path):
    study = finish(config, tmp_path, "a")
    functions = next(iter(study.runs.values())).arm_spec.functions
    modules = training_modules(functions) | {f"reward_ablation.training.core.gone_{number}": "0" for number in range(4)}
    modules["reward_ablation.rewards.load"] = "0"  # decides no number
    finish(config, tmp_path, "a", code="0" * 16, modules=modules)
    assert plan_for(config, tmp_path).runs[0].why == (
        "training code changed: training/core/gone_0.py, training/core/gone_1.py, training/core/gone_2.py and 1 more"
    )


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


def test_a_large_study_is_told_in_a_screen(config, tmp_path):
    weights = {f"arm{number}": {"weights": {"correctness": 1, "format": 0.1 + number / 1000}} for number in range(100)}
    config["arms"]["arms"] = weights
    lines = plan_text(plan_for(config, tmp_path)).splitlines()
    assert "    and 88 more arms" in lines
    assert len(lines) < 25
    assert max(map(len, lines)) <= 100
    finish(config, tmp_path, *weights)
    for arm in weights.values():  # each arm has a reason of its own
        arm["weights"]["correctness"] = 2
        arm["weights"]["format"] *= 3
    lines = plan_text(plan_for(config, tmp_path)).splitlines()
    assert "and 160 runs for 80 more reasons" in lines
    assert len(lines) < 52
