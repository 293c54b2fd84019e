"""A table of edits, and the runs that each edit trains: the real DAG, a model of demo size, one step per run.

An edit that trains is checked by a dry run with Snakemake's records and by the plan without them. An edit that trains
nothing is checked by the plan and by a real start. Edits of a weight and of the library's code are
really trained, in tests of their own. `make test-all` also trains one edit of each kind: weight, arm, code, a user's
code.
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

from .conftest import ROOT, made_once
from .edits import EDITED, Bench

pytestmark = pytest.mark.slow

MIXED = {"mixed-{}/seed0", "mixed-{}/seed1"}
MORE = {"more-{}/seed0", "more-{}/seed1"}
SHORT = {"short-{}/seed0", "short-{}/seed1"}


def nothing(bench: Bench) -> None:
    pass


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


def without_records(bench: Bench) -> None:
    shutil.rmtree(bench.folder / ".snakemake")


def moved(copy_function: Callable) -> Callable[[Bench], None]:
    def move(bench: Bench) -> None:
        elsewhere = bench.folder.with_name("elsewhere")
        ignored = shutil.ignore_patterns(".snakemake")
        shutil.copytree(bench.folder, elsewhere, ignore=ignored, copy_function=copy_function)
        shutil.rmtree(bench.folder)
        bench.folder, bench.results = elsewhere, elsewhere / bench.results.relative_to(bench.folder)

    return move


def config(path: str, value) -> Callable[[Bench], None]:
    return lambda bench: bench.set(path, value)


def file(name: str, old: str, new: str) -> Callable[[Bench], None]:
    return lambda bench: bench.replace(name, old, new)


def code(name: str) -> Callable[[Bench], None]:
    return lambda bench: bench.append(name, "\n\ndef edited():\n    return 1\n")


@dataclass(frozen=True)
class Row:
    """An edit, the runs that it trains (`{}` stands for a key), words of the plan, and whether it is really trained.

    Edits of a config and of data that need no copy of the code are rows of test_copies.
    """

    edit: str
    make: Callable[[Bench], None]
    trains: set[str]
    why: str = ""
    really: bool = False


def several(*edits: Callable[[Bench], None]) -> Callable[[Bench], None]:
    def make(bench: Bench) -> None:
        for edit in edits:
            edit(bench)

    return make


ALL = MIXED | SHORT
NONE: set[str] = set()
TABLE = [
    Row("nothing", nothing, NONE),
    Row("touch of any source, in a fresh clone with new mtimes", several(fresh_clone, touch), NONE),
    Row("a comment or docstring in any module", comments, NONE),
    Row(
        "a change in figures/, in analysis/, and in code that training does not import",
        several(*map(code, ("figures/style.py", "analysis/tables.py", "evaluation/score.py"))),
        NONE,
    ),
    Row("one weight of one arm", config("arms.arms.mixed.weights.format", 0.6), MIXED, "format 0.5 → 0.6", really=True),
    Row("an arm added", config("arms.arms.more", {"weights": {"format": 1}}), MORE, "new arm", really=True),
    Row(
        "a component's formula",
        file("workflow/reward_ablation/rewards/components/answer_format.py", "return [float(", "return [2 * float("),
        ALL,
        "training code changed: rewards/components/answer_format.py",
        really=True,
    ),
    Row(
        "a helper that the user's reward file imports",
        file("my_helpers.py", "<= limit", "< limit"),
        ALL,
        "component brevity: its code",
        really=True,
    ),
    Row(
        "a tracker switched on, and an evaluation setting",
        several(config("training.report_to", "tensorboard"), config("evaluation.max_new_tokens", 12)),
        NONE,
    ),
    Row(
        "what its jobs ask for, and one arm's",
        several(
            config("launch", {"gpus": 0, "threads": 2, "resources": {"mem_mb": 9000}}),
            config("arms.arms.mixed.resources", {"mem_mb": 9000, "qos": "long"}),
        ),
        NONE,
    ),
    Row("code that training imports", code("sampling/prompts.py"), ALL, "training code changed: sampling/prompts.py"),
]


@pytest.fixture(scope="session")
def trained(tmp_path_factory) -> Bench:
    """The study after all of its runs were trained."""

    def make(place: Path) -> None:
        bench = Bench.new(place)
        plan = bench.plan()
        assert plan.startswith("study tiny: 4 of 4 runs to train")
        assert "not trained yet" in plan
        assert len(bench.train()) == 4

    place = made_once(tmp_path_factory, "trained", make)
    return Bench(place / "study", place / "code", EDITED)


def without_keys(names: set[str]) -> set[str]:
    return {f"{name.partition('/')[0].rpartition('-')[0]}-{{}}/{name.partition('/')[2]}" for name in names}


def check_plan(bench: Bench, row: Row) -> None:
    plan = bench.plan()
    assert f": {len(row.trains)} of " in plan.splitlines()[0]
    assert row.why in plan


@pytest.mark.parametrize("row", [row for row in TABLE if row.trains], ids=lambda row: row.edit)
def test_an_edit_trains(trained, tmp_path, row):
    bench = trained.copied(tmp_path)
    row.make(bench)
    assert without_keys(bench.would_train()) == row.trains
    with bench.without_records():
        check_plan(bench, row)


@pytest.mark.parametrize("row", [row for row in TABLE if not row.trains], ids=lambda row: row.edit)
def test_an_edit_trains_nothing(trained, tmp_path, row):
    bench = trained.copied(tmp_path)
    row.make(bench)
    check_plan(bench, row)
    assert bench.train() == NONE
    assert not re.search(r"study tiny: \d+ runs? to train", bench.printed)


@pytest.mark.long
@pytest.mark.parametrize("row", [row for row in TABLE if row.really], ids=lambda row: row.edit)
def test_an_edit_really_trains(trained, tmp_path, row):
    bench = trained.copied(tmp_path)
    row.make(bench)
    check_plan(bench, row)
    with bench.without_records():
        assert without_keys(bench.would_train()) == row.trains
    bench.set("seeds", [0])
    trains = {name for name in row.trains if name.endswith("seed0")}
    assert without_keys(bench.train()) == trains
    [told] = re.findall(r"study tiny: (\d+) runs? to train \(", bench.printed)
    assert int(told) == len(trains)


def test_another_weight_trains_and_the_old_one_put_back_trains_nothing(trained, tmp_path):
    bench = trained.copied(tmp_path)
    bench.set("seeds", [0])
    bench.set("arms.arms.mixed.weights.format", 0.6)
    assert without_keys(bench.train()) == {"mixed-{}/seed0"}
    assert "study tiny: 1 run to train (" in bench.printed
    assert bench.planned() == 0
    bench.set("arms.arms.mixed.weights.format", 0.5)
    assert bench.train() == NONE


def test_nothing_at_all_runs_where_results_were_moved_with_their_file_times(trained, tmp_path):
    bench = trained.copied(tmp_path)
    moved(shutil.copy2)(bench)
    assert bench.dry_run("--until", "train") == {}


def test_stale_runs_are_trained_again_and_their_record_names_the_copied_code(trained, tmp_path):
    """By the records of the runs themselves: Snakemake's are gone."""
    bench = trained.copied(tmp_path)
    without_records(bench)
    code("sampling/prompts.py")(bench)
    bench.set("seeds", [0])
    bench.set("arms.arms.mixed", None)
    assert without_keys(bench.train()) == {"short-{}/seed0"}
    [record] = [json.loads(path.read_text()) for path in bench.results.glob("runs/short-*/seed0/run.json")]
    digests = {
        place: module_digests("reward_ablation.training", root=place / "workflow") for place in (bench.code, ROOT)
    }
    module = "reward_ablation.sampling.prompts"
    assert record["modules"][module] == digests[bench.code][module] != digests[ROOT][module]
    assert bench.planned() == 0


@pytest.fixture
def stale(trained, tmp_path) -> Bench:
    """All runs are of older code, and Snakemake does not know it."""
    bench = trained.copied(tmp_path)
    without_records(bench)
    code("sampling/prompts.py")(bench)
    return bench


def test_only_the_stale_runs_that_are_asked_for_are_trained(stale):
    [run] = stale.results.glob("runs/mixed-*/seed1/run.json")
    assert stale.dry_run(str(run.relative_to(stale.folder))) == {"train": 1}
    assert "train" not in stale.dry_run("fetch")
    answers = stale.dry_run("--until", "evaluate")
    assert (answers["train"], answers["evaluate"]) == (4, 4)


def test_stale_runs_are_kept_where_params_are_no_reason_to_run_again(stale):
    assert stale.dry_run("--until", "train", "--rerun-triggers", "mtime", "input") == {}
    plan = stale.plan("--any-code")
    assert "0 of 4 runs to train" in plan
    assert "training code changed: sampling/prompts.py; kept, as --any-code says" in plan


def test_the_record_of_a_stale_run_is_put_back_where_it_is_kept(stale):
    [record] = stale.results.glob("runs/mixed-*/seed1/run.json")
    before = record.read_bytes()
    record.unlink()
    assert "training code changed: sampling/prompts.py" in stale.plan()
    stale.snakemake(str(record.relative_to(stale.folder)), "--rerun-triggers", "mtime", "input")
    assert record.read_bytes() == before


@pytest.mark.parametrize(
    ("file", "what"), [("data/train-*.parquet", "training set"), ("models/*/model.json", "base model")]
)
def test_runs_on_other_inputs_are_stale(trained, tmp_path, file, what):
    bench = trained.copied(tmp_path)
    [path] = bench.results.glob(file)
    path.write_bytes(path.read_bytes() + b" ")
    assert f"its {what} changed" in bench.plan()
    assert bench.dry_run("--until", "train").get("train") == 4


def test_an_interrupted_run_goes_on(trained, tmp_path):
    bench = trained.copied(tmp_path)
    bench.config["training"] |= {"max_steps": 4000, "save_strategy": "steps", "save_steps": 1}
    bench.set("seeds", [0])
    bench.set("arms.arms.short", None)
    with bench.running("--until", "train") as process:
        while not list(bench.results.glob("runs/*/seed0/.work/checkpoint-[2-9]/checksums.json")):
            assert process.poll() is None
            time.sleep(0.1)
        assert re.search(r"is being trained now, at step \d+ of 4000", bench.plan())
        before = bench.models()
        assert "works there; wait until it is done or stop it" in bench.refused("prune", "--delete")
        assert bench.models() == before
    plan = bench.plan()
    assert re.search(r"interrupted at step \d+ of 4000, goes on from there", plan)
    assert re.search(r"about [\d.]+ CPU hours: 3\d\d\d steps of", plan)


@pytest.mark.parametrize("command", ["plan", "status", "preview", "power", "budget", "verify", "prune"])
def test_a_target_of_earlier_versions_says_what_to_type(trained, command):
    result = trained.start(command)
    assert result.returncode == 1
    assert f"error: {command}: is a command of its own; type: reward-ablation {command} config.yaml\n" in result.stderr


def test_pruning_leaves_what_the_study_needs(trained, tmp_path):
    bench = trained.copied(tmp_path)
    bench.set("seeds", [1])
    bench.set("arms.arms.mixed.weights.format", 0.6)
    bench.train()
    before = {path for path in bench.results.rglob("*") if path.is_file()}
    listed = bench.told("prune")
    assert "finished run of another config" in listed
    assert "finished run of a seed that the study does not have" in listed
    assert {path for path in bench.results.rglob("*") if path.is_file()} == before
    bench.told("prune", "--delete")
    kept = {path.relative_to(bench.results / "runs").parent.name for path in bench.results.glob("runs/*/*/run.json")}
    assert kept == {"seed1"}
    assert len(list(bench.results.glob("runs/*"))) == 2
    assert "nothing in results/tiny that the study does not need" in bench.told("prune")
    assert bench.dry_run("--until", "train") == {}


def test_a_costly_run_is_deleted_only_on_request(trained, tmp_path):
    bench = trained.copied(tmp_path)
    [dear] = bench.results.glob("runs/mixed-*/seed0")
    for name in ("run.json", ".run.json"):
        file = json.dumps({**json.loads((dear / name).read_bytes()), "gpu_hours": 30.0}, indent=2, sort_keys=True)
        (dear / name).write_text(file + "\n")
    bench.set("seeds", [1])
    assert "finished run of a seed that the study does not have, 30 GPU hours" in bench.told("prune")
    bench.told("prune", "--delete")
    assert "kept: 1 run of more than 1 hour" in bench.told("prune", "--delete")  # by arrow-up: nothing more happens
    assert list(bench.results.glob("runs/*/seed0")) == [dear]
    bench.set("seeds", [0, 1])
    assert bench.planned() == 1  # only that of the other arm, which cost little
    bench.set("seeds", [1])
    assert "study tiny: deleted" in bench.told("prune", "--delete", "--costly")
    bench.set("seeds", [0, 1])
    assert bench.planned() == 2
