"""A control beside a finished study: only the control is trained, and every table and figure works with it."""

from __future__ import annotations

import json
import re

import pandas as pd
import pytest

from reward_ablation.figures.catalogue import figures_of

from .edits import Bench

pytestmark = pytest.mark.slow


@pytest.fixture
def with_control(finished, tmp_path):
    """The finished study with a control in its config, not started yet."""
    bench = Bench.of(finished, tmp_path)
    bench.set("components.random", {"function": "random", "scored": "where_trained"})
    bench.set("arms.arms.random_only", {"weights": {"random": 1}})
    bench.set("control", "random_only")
    return bench


def test_the_control_alone_is_trained_and_the_change_of_the_question_is_told(with_control):
    before = with_control.models()
    plan = with_control.plan()
    assert plan.startswith("study tiny: 2 of 6 runs to train, 2 evaluations to make\n")
    reasons = re.findall(r"^(?:no training|train), .*\n(?:    .*\n)+", plan, re.MULTILINE)
    assert [re.sub(r"key \w+", "key", reason) for reason in reasons] == [
        "train, 2 runs: new arm\n    arm random_only  key  seeds 0-1\n",
        "no training, 4 runs: trained\n    arm length       key  seeds 0-1\n    arm mixed        key  seeds 0-1\n",
    ]
    assert "before the first run; exploratory, as added after runs had begun: random_only" in " ".join(plan.split())
    assert {name.partition("-")[0] for name in with_control.would_train()} == {"random_only"}
    with with_control.without_records():
        assert with_control.plan() == plan
    assert with_control.models() == before


@pytest.mark.long
def test_all_tables_and_figures_are_made_with_a_control(with_control):
    before, first = with_control.models(), declared(with_control)
    with_control.snakemake("--quiet", "progress")
    assert "exploratory, as added after runs had begun: random_only" in " ".join(with_control.plan().split())
    after = with_control.models()
    assert {name: after[name] for name in before} == before
    assert len(after) == len(before) + 2
    assert declared(with_control) == first
    for name in figures_of(()):
        assert (with_control.results / "figures" / f"{name}.png").stat().st_size > 10_000
    rewards = pd.read_csv(with_control.results / "tables" / "rewards_by_step.csv")
    assert set(rewards.loc[rewards["quantity"] == "random", "arm"]) == {"random_only"}
    assert with_control.planned() == 0
    assert with_control.dry_run() == {}


def declared(bench: Bench) -> dict:
    return json.loads((bench.results / "study.json").read_text())["primary"]


def test_study_json_is_written_again_where_snakemake_knows_nothing_of_it(finished, tmp_path):
    bench = Bench.of(finished, tmp_path)
    bench.set("bootstrap", 300)
    with bench.without_records():
        assert bench.dry_run("--until", "describe")["describe"] == 1
        bench.snakemake("--until", "describe")
    assert json.loads((bench.results / "study.json").read_text())["bootstrap"] == 300
    assert declared(bench) == declared(Bench(finished.folder, bench.code, finished.config))


@pytest.mark.long
def test_a_start_that_only_trains_has_the_question_on_record(study):
    study.config["seeds"] = [0]
    study.config["training"]["max_steps"] = 1
    result = study.snakemake("--until", "train")
    assert result.returncode == 0, result.stdout + result.stderr
    primary = json.loads((study.results / "study.json").read_text())["primary"]
    assert primary["runs_then"] == 0
    assert primary["contrasts"] == [{"arm": "mixed", "against": "length"}]
    assert study.planned("describe") == {}  # the file is there, and says what it should
    study.config["bootstrap"] = 300
    assert study.planned("describe") == {"describe": 1, "total": 1}  # though Snakemake has no record of it
