"""One job evaluates a run on all sets: existing answers stay, also if a set is added or removed, or a job fails."""

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
EVALUATIONS = ("--until", "evaluate", "evaluate_base")


@pytest.fixture
def bench(finished, tmp_path):
    """The finished study, whose evaluations stop while there is a file `stop`."""
    bench = Bench.of(finished, tmp_path)
    bench.append("evaluation/stored.py", STOPS)
    (bench.folder / "stop").touch()
    return bench


def test_a_job_that_fails_while_it_adds_answers_goes_on_and_makes_nothing_twice(bench):
    def records():
        paths = sorted(bench.results.glob("evaluation/*/**/*.json"))
        return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}

    before = records()
    for name, count in (("more1", 6), ("more2", 7)):
        bench.set(f"data.evaluation.{name}", {"source": "word_problems", "count": count, "split": "test"})
    assert "10 evaluations to make: 2 of the base model, 8 of trained runs" in bench.plan()
    failed = bench.snakemake(*EVALUATIONS)
    assert failed.returncode == 1
    assert "stopped after more1-" in failed.stdout + failed.stderr
    tables = [path for path in bench.results.glob("evaluation/*/**/*.parquet") if path.parent.name != ".unfinished"]
    assert [path.name.partition("-")[0] for path in tables] == ["test"] * 5, "the answers to the first set stay"
    parts = {path: path.read_bytes() for path in bench.results.glob("evaluation/*/**/.unfinished/more*.json")}
    assert len(parts) == 5

    (bench.folder / "stop").unlink()
    bench.make(*EVALUATIONS)
    after = records()
    assert len(after) == 15
    assert {name: after[name] for name in before} == before
    assert [(path.parent.parent / path.name).read_bytes() for path in parts] == [*parts.values()]
    assert not list(bench.results.glob("evaluation/*/**/.unfinished"))
    with bench.without_records():
        assert bench.planned(*EVALUATIONS) == {}
    bench.set("data.evaluation.more1", None)
    assert bench.planned(*EVALUATIONS) == {}


def test_answers_of_an_earlier_training_are_replaced_with_their_scores(bench):
    """The evaluation of a run fails that was trained again. Snakemake keeps the answers of before, as if new."""
    (bench.folder / "own.py").write_text("def size(completions, **columns):\n    return list(map(len, completions))\n")
    bench.config["evaluation"]["metrics"] = {"size": {"function": "own.py:size"}}
    (bench.folder / "stop").unlink()
    bench.make("--until", "score")
    [run] = bench.results.glob("runs/mixed-*/seed0")
    shutil.rmtree(run)
    (bench.folder / "stop").touch()
    assert bench.planned("--until", "score").items() >= {"train": 1, "evaluate": 1, "score": 1}.items()
    failed = bench.snakemake("--until", "score")
    assert "stopped after test-" in failed.stdout + failed.stderr
    assert (run / "run.json").is_file()
    assert list(bench.results.glob("evaluation/*/mixed-*/seed0/*.parquet")), "answers of the earlier training"

    assert "is of an earlier training of the run; the answers are made again" in bench.plan()
    assert bench.planned("--until", "score") == {"evaluate": 1, "score": 1}
    (bench.folder / "stop").unlink()
    bench.make("--until", "score")
    assert bench.planned("--until", "score") == {}
