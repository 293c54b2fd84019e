"""Which runs a start leaves out because they diverged, and what the plan and the status say of them."""

from __future__ import annotations

import pytest

from reward_ablation.start.decide import Decisions, with_diverged
from reward_ablation.start.plan import plan_of, plan_text
from reward_ablation.start.status import State, read_status, status_text
from reward_ablation.study.resolve import resolve
from reward_ablation.study.run_folder import DIVERGED, record_divergence


@pytest.fixture
def study(config, tmp_path):
    return resolve(config, "s", tmp_path)


def diverge(study, name, **changes):
    """Record that a run diverged at step 2; give the record's folder."""
    run = study.runs[name]
    made = {"seed": run.seed, "spec": run.arm_spec.content(), "code": run.code, "inputs": {}, **changes}
    folder = study.root / study.config.root / "runs" / name
    folder.mkdir(parents=True)
    record_divergence(folder, made, 2, "the loss is nan")
    return folder


def test_a_run_that_diverged_is_left_out_and_named(study):
    assert with_diverged(study) is study
    first, *others = study.runs
    diverge(study, first)
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
def test_a_record_of_other_code_or_of_another_config_does_not_count(study, changes):
    folder = diverge(study, next(iter(study.runs)), **changes)
    assert with_diverged(study).diverged == {}
    (folder / DIVERGED).write_text("{")
    assert with_diverged(study).diverged == {}
