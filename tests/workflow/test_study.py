"""The real DAG on a tiny config: all files are made, studies repeat, and a change runs only what depends on it."""

from __future__ import annotations

import json
import os
import re
import shutil

import pandas as pd
import pypdf
import pytest

from reward_ablation.analysis.registry import ON_REQUEST, RULES
from reward_ablation.figures.catalogue import figures_of, pages_of
from reward_ablation.system.files import sha256

from .conftest import TINY, Study, config
from .edits import Bench

pytestmark = pytest.mark.slow


CLAIM = {"says": "as short", "metric": "tokens", "arm": "mixed", "direction": "same", "margin": 5}
#: Figures of a study without methods of combination, and those that its all.pdf holds.
CATALOGUE, IN_ALL = figures_of(()), pages_of(())
TABLES = {f"tables_{rule}": 1 for rule in RULES if rule not in ON_REQUEST} | {"summary": 1}
#: Tables that need the answers of evaluated models.
OF_ANSWERS = {f"tables_{rule}": 1 for rule in ("evaluation", "reward_hacking", "cost")} | {"summary": 1}
DESCRIBED = {"describe": 1}
ANSWERS = {"evaluate": 4, "evaluate_base": 1}
FIGURES = {"figures": 1, "all_figures": 1, "summary": 1}
PAGES = {"report_pages": 1}


@pytest.fixture
def bench(finished, tmp_path) -> Bench:
    """A copy of the finished study with its code, to be changed."""
    return Bench.of(finished, tmp_path)


def test_every_figure_and_table_is_made(finished):
    records = [json.loads(path.read_text()) for path in sorted(finished.results.glob("runs/*/*/run.json"))]
    assert [(record["seed"], record["steps"]) for record in records] == [(0, 3), (1, 3)] * 2
    answers = [pd.read_parquet(path) for path in finished.results.glob("evaluation/**/test-*.parquet")]
    assert [len(table) for table in answers] == [12 * 3] * 5  # base and four runs: greedy and two samples
    figures = finished.results / "figures"
    for name in CATALOGUE:
        assert (figures / f"{name}.png").stat().st_size > 10_000
    all_pages = pypdf.PdfReader(figures / "all.pdf")
    assert len(all_pages.pages) == 1 + len(IN_ALL) == 8
    for table in ("runs", "evaluation_by_run", "evaluation_by_arm", "rewards_by_step", "similarity_by_step"):
        assert len(pd.read_csv(finished.results / "tables" / f"{table}.csv"))


@pytest.mark.usefixtures("_blank_figures")
def test_a_figure_that_cannot_be_drawn_is_named_and_the_others_are_drawn(finished, bench):
    """Snakemake removes every output of a rule that fails, so the others are kept in a folder beside them."""
    drawn, whole = bench.results / "figures" / "drawn", finished.results / "figures"
    os.truncate(bench.results / "tables" / "component_effects.parquet", 300)
    result = bench.snakemake("results/tiny/figures/effects.pdf")
    assert result.returncode == 1
    told = r"error: 1 of \d+ figures cannot be drawn \(the others are in \S+/drawn\): effects: \S+_effects.parquet"
    assert re.search(told, result.stderr)
    kept, before = ({path.relative_to(root) for path in root.rglob("*.*")} for root in (drawn, whole))
    assert {path.name for path in before - kept} == {"all.pdf", "effects.pdf", "effects.png", "effects.txt"}
    assert all((drawn / file).stat().st_size for file in kept)


@pytest.mark.long
def test_two_studies_with_the_same_seeds_have_the_same_bytes(finished, tmp_path):
    again = Study(tmp_path / "again", TINY)
    last = ("runs", "similarity_by_arm", "reward_hacking", "evaluation_by_arm")
    again.make(*(f"results/tiny/tables/{table}.csv" for table in last))  # and all that these need
    files = sorted(path.relative_to(finished.results) for path in finished.results.rglob("*.parquet"))
    assert len(files) > 20
    different = [str(file) for file in files if sha256(finished.results / file) != sha256(again.results / file)]
    assert different == []


def code(*names):
    return lambda bench: [bench.append(f"{name}.py", "edited = 1\n") for name in names]


READ = TABLES | FIGURES | PAGES
PREPARED = {"prepare_train": 1, "prepare_evaluation": 1}
MADE_AGAIN = {
    "nothing": (code(), {}),
    "code of the figures": (code("figures/style"), FIGURES | PAGES),
    "code of the tables": (code("analysis/tables"), READ),
    "code of the evaluation": (code("evaluation/score"), ANSWERS | OF_ANSWERS | FIGURES | PAGES),
    "code of the gradient tables": (code("analysis/gradients/tables"), {"tables_gradients": 1} | FIGURES | PAGES),
    "code that prepares data": (code("data/problems"), PREPARED | READ),
    "code that decides runs, and that data are prepared with": (
        code("rewards/grading/structure"),
        {"train": 4} | PREPARED | ANSWERS | READ,
    ),
    "code that answers are made with, and data prepared": (
        code("data/problems", "evaluation/score"),
        PREPARED | ANSWERS | READ,
    ),
    "code that fetches a model": (code("models/hub"), {}),
    "code that asks Slurm for jobs": (code("cluster/slurm"), {}),
    "resamples": (config("bootstrap", 300), DESCRIBED | READ),
    "a claim": (config("claims", {"short": CLAIM}), DESCRIBED | READ | {"tables_claims": 1}),
    "a seed removed": (config("seeds", [0]), DESCRIBED | READ),
    "an arm removed": (config("arms.arms.length", None), DESCRIBED | READ),
    "an evaluation setting": (config("evaluation.max_new_tokens", 12), DESCRIBED | ANSWERS | READ),
    "a weight": (config("arms.arms.mixed.weights.format", 0.6), {"train": 2, "evaluate": 2} | DESCRIBED | READ),
}


#: Of one stage's code, whose rules tests/study/test_source_edits names without a start; and of keys of the config that
#: make the same again as other keys here.
IN_THE_LONG_FORM = [
    *("code of the figures", "code of the tables", "code of the gradient tables", "code that prepares data"),
    *("code that fetches a model", "code that asks Slurm for jobs", "resamples", "an arm removed"),
]


@pytest.mark.parametrize(
    ("edit", "stages"),
    [
        pytest.param(*row, id=name, marks=[pytest.mark.long] if name in IN_THE_LONG_FORM else [])
        for name, row in MADE_AGAIN.items()
    ],
)
def test_only_what_depends_on_an_edit_is_made_again_and_the_plan_says_so(bench, edit, stages):
    edit(bench)
    assert bench.planned() == stages
    evaluations = stages.get("evaluate", 0) + stages.get("evaluate_base", 0)
    plan = bench.plan().splitlines()
    told = f", {evaluations} evaluations to make" if evaluations else ""
    assert re.fullmatch(rf"study tiny: {stages.get('train', 0)} of [24] runs to train{told}", plan[0])
    if evaluations:
        assert re.search(rf"^{evaluations} evaluations to make: .* CPU hours, from \d+ earlier evaluations$", plan[-1])
    made_again = re.findall(
        r"^(.*?)(?:-\w{8})?: made again; if the bytes differ, the next start", "\n".join(plan), re.M
    )
    prepared = ["training set"] * (stages.get("train") != 4) + ["evaluation set test"]  # where all train, it is no news
    assert made_again == (prepared if "prepare_train" in stages else [])


def test_a_drawing_of_a_finished_study_shows_what_runs_and_answers_are_made_of(finished):
    drawn = finished.snakemake("--rulegraph").stdout
    names = dict(re.findall(r'(\d+)\[label = "(\w+)"', drawn))
    edges = {(names[first], names[second]) for first, second in re.findall(r"(\d+) -> (\d+)", drawn)}
    assert {("fetch", "train"), ("prepare_train", "train"), ("fetch", "evaluate_base")} <= edges


def test_without_snakemakes_records_a_change_is_still_seen(bench):
    evaluations = ("--until", "evaluate", "evaluate_base")
    shutil.rmtree(bench.folder / ".snakemake")
    assert bench.planned() == {}
    bench.append("evaluation/score.py", "edited = 1\n")
    assert bench.planned(*evaluations) == ANSWERS
    assert bench.planned(*evaluations, "--rerun-triggers", "mtime") == {}
    bench.replace("workflow/reward_ablation/evaluation/score.py", "edited = 1\n", "")
    [problems] = bench.results.glob("data/evaluation/test-*.parquet")
    before = problems.read_bytes()
    problems.write_bytes(before + b" ")
    [train] = bench.results.glob("data/train-*.parquet")
    train.touch()  # as if it were made after the other problems
    assert bench.planned(*evaluations) == ANSWERS
    problems.write_bytes(before)
    bench.config["model"]["seed"] = 7
    planned = bench.planned()
    assert (planned["fetch"], planned["train"], planned["evaluate_base"]) == (1, 4, 1)


def test_data_that_are_made_again_with_the_same_bytes_are_not_evaluated_again(bench):
    bench.append("data/problems.py", "edited = 1\n")
    answers = sorted(bench.results.glob("evaluation/**/*.parquet"))
    before = [path.stat().st_mtime_ns for path in answers]
    bench.make("results/tiny/tables/evaluation_by_run.csv")
    assert [path.stat().st_mtime_ns for path in answers] == before
    assert bench.planned("results/tiny/tables/evaluation_by_run.csv") == {}


def test_damaged_results_are_told_and_made_again_before_any_table_is_touched(bench):
    damaged, unreadable, without_model, badly_judged = sorted(bench.results.glob("runs/*/seed*"))
    os.truncate(damaged / "rollouts.parquet", 100)
    (damaged / "model" / "config.json").unlink()
    os.truncate(unreadable / "run.json", 10)  # its hidden copy is whole: nothing is trained
    shutil.rmtree(without_model / "model")  # to free space: its answers are there
    name = badly_judged.relative_to(bench.results / "runs")
    [answers] = bench.results.glob(f"evaluation/*/{name}/test-*.parquet")
    os.truncate(answers, 100)
    before = bench.models()

    # The unreadable record's job puts the record back, by which its answers are current.
    planned = {"train": 2, "evaluate": 2}
    plan = bench.plan()
    assert plan.startswith("study tiny: 1 of 4 runs to train, 2 evaluations to make\n")
    config = (damaged / "model" / "config.json").relative_to(bench.folder)
    lines = [
        f"damaged: {config} is missing, and 1 more file is damaged; the run is trained again (",
        f"damaged: {answers.relative_to(bench.folder)} has 100 bytes instead of",
    ]
    assert all(line in plan for line in lines)
    assert bench.planned().items() >= (planned | TABLES).items()

    bench.set("bootstrap", 201)  # the tables are to be made again, and are still there when the damage is found
    table = bench.results / "tables" / "runs.csv"
    printed = bench.make("--until", "evaluate")
    bench.make("--until", "train")  # no evaluation needs the run whose record is put back
    assert table.is_file()
    assert all(line in printed for line in lines)
    assert "study tiny: 1 run to train (its files are damaged); about " in printed
    assert "; 2 evaluations to make: 2 of trained runs; about " in printed
    after = bench.models()
    assert {run for run in after if after[run] != before.get(run)} == {str(damaged.relative_to(bench.results / "runs"))}
    assert bench.plan().startswith("study tiny: 0 of 4 runs to train\n")
    verified = bench.told("verify")
    assert re.search(r"^verified \d+ files, .*: none is damaged$", verified, re.MULTILINE)
    [rollouts] = damaged.glob("rollouts.parquet")
    rollouts.write_bytes(rollouts.read_bytes()[:-1] + b"!")  # of the same size
    result = bench.command("verify")
    assert result.returncode == 1
    assert f"damaged: {rollouts.relative_to(bench.folder)} has other bytes" in result.stdout


def test_tables_leave_removed_seeds_out_and_show_an_arms_new_name(bench):
    arms = bench.config["arms"]["arms"]
    bench.config["arms"]["arms"] = {"length": arms["length"], "blend": arms["mixed"]}
    bench.set("seeds", [1])
    before = bench.models()
    bench.make("results/tiny/tables/runs.csv", "results/tiny/tables/evaluation_by_run.csv")
    for table in ("runs", "evaluation_by_run"):
        rows = pd.read_csv(bench.results / "tables" / f"{table}.csv")
        rows = rows[rows["arm"] != "base"]
        assert set(zip(rows["arm"], rows["seed"], strict=True)) == {("length", 1), ("blend", 1)}
    assert bench.models() == before


def test_data_that_are_made_again_hold_no_missing_run_back(bench):
    """Snakemake alone would leave a job out whose inputs are all ancient, though its outputs are missing."""
    shutil.rmtree(next(bench.results.glob("runs/mixed-*/seed1")))
    for rule in ("prepare_train", "fetch"):
        planned = bench.planned("--until", "train", "--forcerun", rule)
        assert (planned[rule], planned["train"]) == (1, 1)
