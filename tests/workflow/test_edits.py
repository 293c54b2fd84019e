"""A table of edits, and the runs that each edit trains: the real DAG, a model of demo size, one step per run.

An edit that trains is checked by a dry run with Snakemake's records and by the plan without them. All edits that train
nothing are made together: the plan and a real start must do nothing after them. Edits of a weight and of the library's
code are really trained, in tests of their own. `make test-all` really trains after each edit of the table.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from reward_ablation.study.code_digest import module_digests

from .conftest import ROOT, config, made_once, refusal, text
from .edits import EDITED, Bench

pytestmark = pytest.mark.slow

MIXED = {"mixed-{}/seed0", "mixed-{}/seed1"}
MORE = {"more-{}/seed0", "more-{}/seed1"}
SHORT = {"short-{}/seed0", "short-{}/seed1"}


def touch(bench: Bench) -> None:
    later = time.time() + 60
    for place in (bench.code, bench.folder):
        for file in place.rglob("*"):
            if file.is_file() and not {"results", ".snakemake"} & set(file.relative_to(place).parts):
                os.utime(file, (later, later))


def fresh_clone(bench: Bench) -> None:
    shutil.copytree(bench.code, bench.code.with_name("clone"), copy_function=shutil.copy)
    shutil.rmtree(bench.code)
    bench.code = bench.code.with_name("clone")


def comments(bench: Bench) -> None:
    for file in (bench.code / "workflow").rglob("*.py"):
        file.write_text(file.read_text() + "\n# a comment\n")
    bench.replace("workflow/reward_ablation/training/around/finish.py", '"""', '"""Other words. ')
    bench.replace("my_rewards.py", "1 for completions", "One for completions")
    bench.replace("my_helpers.py", "def fits", "# a comment\ndef fits")


def code(name: str) -> Callable[[Bench], None]:
    return lambda bench: bench.append(name, "\n\ndef edited():\n    return 1\n")


@dataclass(frozen=True)
class Row:
    """An edit, the runs that it trains (`{}` stands for a key), and words of the plan.

    Edits of a config and of data that need no copy of the code are rows of test_copies.
    """

    edit: str
    make: Callable[[Bench], None]
    trains: set[str]
    why: str


ALL = MIXED | SHORT
NONE: set[str] = set()
TABLE = [
    Row("one weight of one arm", config("arms.arms.mixed.weights.format", 0.6), MIXED, "format 0.5 → 0.6"),
    Row("a weight where was none", config("arms.arms.mixed.weights.brevity", 0.5), MIXED, "brevity 0 → 0.5"),
    Row("an arm added", config("arms.arms.more", {"weights": {"format": 1}}), MORE, "new arm"),
    Row(
        "a component's formula",
        text("workflow/reward_ablation/rewards/components/answer_format.py", "return [float(", "return [2 * float("),
        ALL,
        "training code changed: rewards/components/answer_format.py",
    ),
    Row(
        "a helper that the user's reward file imports",
        text("my_helpers.py", "<= limit", "< limit"),
        ALL,
        "component brevity: its code",
    ),
    Row("code that training imports", code("sampling/prompts.py"), ALL, "training code changed: sampling/prompts.py"),
]

#: What trains nothing: any source touched in a fresh clone with new times, and comments and docstrings in each module;
#: code that training does not import; a tracker, a setting of evaluation, and what jobs ask for.
IDLE = [
    fresh_clone,
    touch,
    comments,
    *map(code, ("figures/style.py", "analysis/tables.py", "evaluation/score.py")),
    config("training.report_to", "tensorboard"),
    config("evaluation.max_new_tokens", 12),
    config("launch", {"gpus": 0, "threads": 2, "resources": {"mem_mb": 9000}}),
    config("arms.arms.mixed.resources", {"mem_mb": 9000, "qos": "long"}),
]


@pytest.fixture(scope="session")
def trained_once(tmp_path_factory) -> Bench:
    """The study after all of its runs were trained."""

    def make(place: Path) -> None:
        bench = Bench.new(place)
        plan = bench.plan()
        assert plan.startswith("study tiny: 4 of 4 runs to train")
        assert "not trained yet" in plan
        assert len(bench.train()) == 4

    place = made_once(tmp_path_factory, "trained", make)
    return Bench(place / "study", EDITED, place / "code")


@pytest.fixture
def bench(trained_once, tmp_path) -> Bench:
    """A copy of that study, to be edited."""
    return Bench.of(trained_once, tmp_path)


def without_keys(names: set[str]) -> set[str]:
    return {f"{name.partition('/')[0].rpartition('-')[0]}-{{}}/{name.partition('/')[2]}" for name in names}


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.edit)
def test_an_edit_trains(bench, row):
    row.make(bench)
    assert without_keys(bench.would_train()) == row.trains
    with bench.without_records():
        plan = bench.plan()
        assert f": {len(row.trains)} of " in plan.splitlines()[0]
        assert row.why in plan


def test_all_that_trains_nothing(bench):
    for edit in IDLE:
        edit(bench)
    assert bench.to_train() == 0
    assert bench.train() == NONE
    assert not re.search(r"study tiny: \d+ runs? to train", bench.printed)


@pytest.mark.long
@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.edit)
def test_an_edit_really_trains(bench, row):
    row.make(bench)
    bench.set("seeds", [0])
    trains = {name for name in row.trains if name.endswith("seed0")}
    assert without_keys(bench.train()) == trains
    assert f"study tiny: {len(trains)} run{'s' * (len(trains) > 1)} to train (" in bench.printed


def test_another_weight_trains_and_the_old_one_put_back_trains_nothing(bench):
    bench.set("seeds", [0])
    bench.set("arms.arms.mixed.weights.format", 0.6)
    assert without_keys(bench.train()) == {"mixed-{}/seed0"}
    assert "study tiny: 1 run to train (" in bench.printed
    assert bench.to_train() == 0
    bench.set("arms.arms.mixed.weights.format", 0.5)
    assert bench.train() == NONE


def test_stale_runs_are_trained_again_and_their_record_names_the_copied_code(bench):
    """By the records of the runs themselves: Snakemake's are gone."""
    shutil.rmtree(bench.folder / ".snakemake")
    code("sampling/prompts.py")(bench)
    bench.set("seeds", [0])
    bench.set("arms.arms.mixed", None)
    assert without_keys(bench.train()) == {"short-{}/seed0"}
    [record] = [json.loads(path.read_text()) for path in bench.results.glob("runs/short-*/seed0/run.json")]
    module = "reward_ablation.sampling.prompts"
    copied, original = (
        module_digests("reward_ablation.training", root=place / "workflow")[module] for place in (bench.code, ROOT)
    )
    assert record["modules"][module] == copied != original
    assert bench.to_train() == 0


def test_runs_of_other_code_that_snakemake_does_not_know_are_trained_where_asked_for_and_kept_where_told(bench):
    shutil.rmtree(bench.folder / ".snakemake")
    code("sampling/prompts.py")(bench)
    [record] = bench.results.glob("runs/mixed-*/seed1/run.json")
    name = str(record.relative_to(bench.folder))
    assert bench.planned(name) == {"train": 1}
    assert "train" not in bench.planned("fetch")
    answers = bench.planned("--until", "evaluate")
    assert (answers["train"], answers["evaluate"]) == (4, 4)

    kept = ("--rerun-triggers", "mtime", "input")  # params are no reason to run again
    assert bench.planned("--until", "train", *kept) == {}
    plan = bench.told("plan", "--quick", "--any-code")
    assert "0 of 4 runs to train" in plan
    assert "training code changed: sampling/prompts.py; kept, as --any-code says" in plan

    before = record.read_bytes()
    record.unlink()  # put back where the run is kept
    assert "training code changed: sampling/prompts.py" in bench.plan()
    bench.make(name, *kept)
    assert record.read_bytes() == before


def test_runs_on_other_inputs_are_stale(bench):
    for file, what in (("data/train-*.parquet", "training set"), ("models/*/model.json", "base model")):
        [path] = bench.results.glob(file)
        before = path.read_bytes()
        path.write_bytes(before + b" ")
        assert f"its {what} changed" in bench.plan()
        assert bench.planned("--until", "train").get("train") == 4
        path.write_bytes(before)


def test_an_interrupted_run_goes_on(bench):
    bench.config["training"] |= {"max_steps": 4000, "save_strategy": "steps", "save_steps": 1}
    bench.set("seeds", [0])
    bench.set("arms.arms.short", None)
    with bench.running("snakemake", *bench.arguments("--until", "train")) as process:
        while not list(bench.results.glob("runs/*/seed0/.work/checkpoint-[2-9]/checksums.json")):
            assert process.poll() is None
            time.sleep(0.1)
        assert re.search(r"is being trained now, at step \d+ of 4000", bench.plan())
        before = bench.models()
        assert "works there; wait until it is done or stop it" in refusal(bench.command("prune", "--delete"))
        assert bench.models() == before
    plan = bench.plan()
    assert re.search(r"interrupted at step \d+ of 4000, goes on from there", plan)
    assert re.search(r"about [\d.]+ CPU hours: 3\d\d\d steps of", plan)


def test_a_target_of_earlier_versions_says_what_to_type(bench):
    words = "error: prune: is a command of its own; type: reward-ablation prune config.yaml"
    assert refusal(bench.snakemake("prune")) == words
    targets = {"plan", "status", "preview", "power", "budget", "verify", "prune"}
    assert targets <= {*bench.make("--list-rules").split()}


def test_pruning_leaves_what_the_study_needs_and_a_costly_run_unless_told(bench):
    [dear] = bench.results.glob("runs/mixed-*/seed0")
    for name in ("run.json", ".run.json"):
        record = json.dumps({**json.loads((dear / name).read_bytes()), "gpu_hours": 30.0}, indent=2, sort_keys=True)
        (dear / name).write_text(record + "\n")
    bench.set("seeds", [1])
    before = {path for path in bench.results.rglob("*") if path.is_file()}
    assert "finished run of a seed that the study does not have, 30 GPU hours" in bench.told("prune")
    assert {path for path in bench.results.rglob("*") if path.is_file()} == before
    bench.told("prune", "--delete")
    assert "kept: 1 run of more than 1 hour" in bench.told("prune", "--delete")  # by arrow-up: nothing more happens
    assert list(bench.results.glob("runs/*/seed0")) == [dear]
    assert bench.planned("--until", "train") == {}
    bench.set("seeds", [0, 1])
    assert bench.to_train() == 1  # only that of the other arm, which cost little
    bench.set("seeds", [1])
    assert "study tiny: deleted" in bench.told("prune", "--delete", "--costly")
    assert "nothing in results/tiny that the study does not need" in bench.told("prune")
    bench.set("seeds", [0, 1])
    assert bench.to_train() == 2
