"""A control beside a finished study: only the control is trained, and every table and figure works with it."""

from __future__ import annotations

import re

import pandas as pd
import pytest

from reward_ablation.figures.catalogue import figures_of

from .edits import Bench

pytestmark = pytest.mark.slow

ADDED = "exploratory, as added after runs had begun: random_only"


@pytest.fixture
def with_control(finished, tmp_path):
    """The finished study with a control in its config, not started yet."""
    bench = Bench.of(finished, tmp_path)
    bench.set("components.random", {"function": "random", "scored": "where_trained"})
    bench.set("arms.arms.random_only", {"weights": {"random": 1}})
    bench.set("control", "random_only")
    return bench


def test_the_control_alone_is_trained_and_the_change_of_the_question_is_told(with_control):
    plan = with_control.plan()
    assert plan.startswith("study tiny: 2 of 6 runs to train, 2 evaluations to make\n")
    assert re.search(r"^train, 2 runs: new arm\n    arm random_only  key \w+  seeds 0-1\n", plan, re.MULTILINE)
    assert f"before the first run; {ADDED}" in " ".join(plan.split())
    assert {name.partition("-")[0] for name in with_control.would_train()} == {"random_only"}
    with with_control.without_records():
        assert with_control.plan() == plan


@pytest.mark.long
def test_all_tables_and_figures_are_made_with_a_control(with_control):
    before, first = with_control.models(), with_control.described()["primary"]
    with_control.make("--quiet", "progress")
    assert ADDED in " ".join(with_control.plan().split())
    after = with_control.models()
    assert {name: after[name] for name in before} == before
    assert len(after) == len(before) + 2
    assert with_control.described()["primary"] == first
    for name in figures_of(()):
        assert (with_control.results / "figures" / f"{name}.png").stat().st_size > 10_000
    rewards = pd.read_csv(with_control.results / "tables" / "rewards_by_step.csv")
    assert set(rewards.loc[rewards["quantity"] == "random", "arm"]) == {"random_only"}
    assert (with_control.to_train(), with_control.planned()) == (0, {})


def test_study_json_is_written_again_where_snakemake_knows_nothing_of_it(finished, tmp_path):
    study = finished.copied(tmp_path / "study")
    (study.folder / ".snakemake").rename(study.folder / "away")
    study.set("bootstrap", 300)
    assert study.planned("--until", "describe") == {"describe": 1}
    study.make("--until", "describe")
    assert study.described()["bootstrap"] == 300
    assert study.described()["primary"] == finished.described()["primary"]
