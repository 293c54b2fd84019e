"""One job evaluates a run on all sets: existing answers stay, also if a set is added or removed, or a job fails."""

import copy
import json
import shutil

import pytest

from .edits import Bench

pytestmark = pytest.mark.slow

#: Appended to the code around the evaluation: it stops as soon as something is stored, while a file is there.
STOPS = """
from pathlib import Path

_store = Answers.store


def _stop(answers, part, *others):
    _store(answers, part, *others)
    if Path("stop").exists():
        raise SystemExit(f"stopped after {part.name}")


Answers.store = _stop
"""


def answers_of(bench):
    """Bytes and time of all answers and their records."""
    return {
        str(path.relative_to(bench.results)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(bench.results.glob("evaluation/*/**/*.json"))
    }


def with_more_sets(config):
    """The same study with two more sets, and the settings of its evaluation."""
    config = copy.deepcopy(config)
    for number in (1, 2):
        source = {"source": "word_problems", "count": 5 + number, "split": "test"}
        config["data"]["evaluation"][f"more{number}"] = source
    return config


@pytest.fixture(scope="module")
def extended(finished, tmp_path_factory):
    """A finished study that was given two more sets. The first start failed after the first new answers of each job."""
    bench = Bench.of(finished, tmp_path_factory.mktemp("extended"))
    bench.append("evaluation/stored.py", STOPS)
    bench.before = answers_of(bench)
    bench.config = with_more_sets(bench.config)
    assert {rule: bench.dry_run()[rule] for rule in ("evaluate", "evaluate_base")} == {
        "evaluate": 4,
        "evaluate_base": 1,
    }
    assert "10 evaluations to make: 2 of the base model, 8 of trained runs" in bench.plan()
    (bench.folder / "stop").touch()
    bench.failed = bench.start("--until", "evaluate", "evaluate_base")
    bench.left = sorted(path.relative_to(bench.results) for path in bench.results.glob("evaluation/*/**/*.parquet"))
    bench.parts = {path: path.read_bytes() for path in bench.results.glob("evaluation/*/**/.unfinished/more*.json")}
    (bench.folder / "stop").unlink()
    bench.printed = bench.snakemake("--until", "evaluate", "evaluate_base")
    return bench


def test_finished_answers_outlive_a_job_that_fails_while_it_adds_others(extended):
    assert extended.failed.returncode == 1
    assert "stopped after more1-" in extended.failed.stdout + extended.failed.stderr
    in_place = [path for path in extended.left if ".unfinished" not in path.parts]
    assert len(in_place) == 5, "the answers to the first set, of four runs and the base model"
    assert {path.name.partition("-")[0] for path in in_place} == {"test"}


def test_a_job_that_goes_on_makes_what_is_missing_and_nothing_twice(extended):
    """Each record is the one that was written when the answers were made."""
    after = answers_of(extended)
    assert len(after) == 15
    assert {name: after[name] for name in extended.before} == extended.before
    assert len(extended.parts) == 5
    for path, content in extended.parts.items():
        assert (path.parent.parent / path.name).read_bytes() == content
    assert not list(extended.results.glob("evaluation/*/**/.unfinished"))


def test_then_nothing_is_left_to_evaluate(extended):
    assert extended.dry_run("--until", "evaluate", "evaluate_base") == {}
    with extended.without_records():
        assert extended.dry_run("--until", "evaluate", "evaluate_base") == {}


def test_a_set_that_is_taken_out_evaluates_nothing(extended):
    config = copy.deepcopy(extended.config)
    del extended.config["data"]["evaluation"]["more1"]
    try:
        assert extended.dry_run("--until", "evaluate", "evaluate_base") == {}
    finally:
        extended.config = config


def test_the_record_names_the_run(extended):
    records = [json.loads(content) for name, (content, _) in answers_of(extended).items() if "/base/" not in name]
    assert len({record["inputs"]["run"] for record in records}) == 4
    assert {len(record["models"]) for record in records} == {1}


def test_answers_of_an_earlier_training_are_replaced_with_their_scores(finished, tmp_path):
    """The evaluation of a run fails that was trained again. Snakemake keeps the answers of before, as if new."""
    bench = Bench.of(finished, tmp_path)
    (bench.folder / "own.py").write_text("def size(completions, **columns):\n    return list(map(len, completions))\n")
    bench.config["evaluation"]["metrics"] = {"size": {"function": "own.py:size"}}
    bench.snakemake("--until", "score")
    bench.append("evaluation/stored.py", STOPS)
    [run] = bench.results.glob("runs/mixed-*/seed0")
    shutil.rmtree(run)
    (bench.folder / "stop").touch()
    jobs = bench.dry_run("--until", "score")
    assert {rule: jobs[rule] for rule in ("train", "evaluate", "score")} == {"train": 1, "evaluate": 1, "score": 1}
    failed = bench.start("--until", "score")
    assert "stopped after test-" in failed.stdout + failed.stderr
    assert (run / "run.json").is_file()
    assert list(bench.results.glob("evaluation/*/mixed-*/seed0/*.parquet")), "answers of the earlier training"

    assert "is of an earlier training of the run; the answers are made again" in bench.plan()
    assert bench.dry_run("--until", "score") == {"evaluate": 1, "score": 1}
    (bench.folder / "stop").unlink()
    bench.snakemake("--until", "score")
    assert bench.dry_run("--until", "score") == {}
