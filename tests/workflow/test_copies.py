"""A table of copies, moves, renames and edits of a finished study: what the plan says, a start does.

Each row changes a study that is finished, and says what is trained, evaluated and scored. `reward-ablation plan` and a
dry run must both say so. `make test-all` also starts the rows marked `really`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from reward_ablation.config.sections.model import DemoModel
from reward_ablation.data.word_problems import generate
from reward_ablation.models.fetch import fetch

from .conftest import TINY, Study, config, made_once, text

pytestmark = pytest.mark.slow

REWARDS = """
def brevity(completions, completion_ids, *, limit: int, **columns):
    return [float(len(ids) <= limit) for ids in completion_ids]
"""
METRICS = "def size(completions, **columns):\n    return list(map(len, completions))\n"

#: Model, problems, rewards and metric are the user's own files. One training step, two runs.
CONFIG = {
    **TINY,
    "seeds": [0],
    "model": {"source": "local", "path": "model"},
    "data": {
        "train": {"source": "file", "path": "data/train.jsonl"},
        "evaluation": {"exam": {"source": "file", "path": "data/exam.jsonl"}},
    },
    "components": {
        "correctness": TINY["components"]["correctness"],
        "brevity": {"function": "my_rewards.py:brevity", "parameters": {"limit": 12}},
    },
    "arms": {
        "design": "list",
        "arms": {"mixed": {"weights": {"correctness": 1, "brevity": 0.5}}, "short": {"weights": {"brevity": 1}}},
    },
    "training": {**TINY["training"], "max_steps": 1},
    "evaluation": {
        **TINY["evaluation"],
        "samples": 1,
        "max_new_tokens": 8,
        "metrics": {"size": {"function": "my_metrics.py:size"}},
    },
}

RUNS = frozenset({"mixed/seed0", "short/seed0"})
MODELS = RUNS | {"base"}
NONE: frozenset[str] = frozenset()


class Copied(Study):
    """A study to whose starts options are added, and whose records are edited."""

    options: tuple[str, ...] = ()

    def arguments(self, *arguments: str) -> list[str]:
        return super().arguments(*arguments, *self.options)

    def edit(self, pattern: str, change: Callable[[dict], object]) -> None:
        """Edit JSON files below the results folder."""
        for path in found(self, pattern):
            record = json.loads(path.read_text())
            change(record)
            path.write_text(json.dumps(record, indent=2, sort_keys=True) + "\n")


@dataclass(frozen=True)
class Row:
    """A change, what it trains, evaluates and scores, and whether a dry run and a real start show so, too.

    What changes nothing, not even together with other changes, has no row of its own. Another path of the same content
    needs no dry run of its own: the row of every place at once has one.
    """

    name: str
    change: Callable[[Copied], object]
    trains: frozenset[str] = NONE
    evaluates: frozenset[str] = NONE
    scores: frozenset[str] = NONE
    really: bool = field(default=False, kw_only=True)
    dry: bool = field(default=True, kw_only=True)


def several(*changes: Callable[[Copied], object]) -> Callable[[Copied], object]:
    return lambda study: [change(study) for change in changes]


def records(pattern: str, change: Callable[[dict], object]) -> Callable[[Copied], object]:
    return lambda study: study.edit(pattern, change)


def options(*words: str) -> Callable[[Copied], object]:
    return lambda study: setattr(study, "options", words)


def found(study: Copied, pattern: str) -> list[Path]:
    paths = sorted(study.results.glob(pattern))
    assert paths
    return paths


def lose_snakemake(study: Copied) -> None:
    shutil.rmtree(study.folder / ".snakemake")


def times(order: Callable[[list[Path]], Iterable[Path]]) -> Callable[[Copied], None]:
    """Files get increasing times in an order, one second after the other."""

    def change(study: Copied) -> None:
        files = sorted(path for path in study.folder.rglob("*") if path.is_file() and ".snakemake" not in path.parts)
        for number, file in enumerate(order(files)):
            os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))

    return change


def touched(*patterns: str) -> Callable[[Copied], object]:
    return lambda study: [os.utime(path) for pattern in patterns for path in found(study, pattern)]


def move(study: Copied, copy_function: Callable = shutil.copy2) -> None:
    """The project's folder gets another place."""
    elsewhere = study.folder.with_name("elsewhere")
    shutil.copytree(study.folder, elsewhere, copy_function=copy_function)
    shutil.rmtree(study.folder)
    study.folder, study.results = elsewhere, elsewhere / study.results.relative_to(study.folder)


def symlink_results(study: Copied) -> None:
    shutil.move(study.folder / "results", study.folder.with_name("disk"))
    (study.folder / "results").symlink_to(study.folder.with_name("disk"))


def rename_results(study: Copied) -> None:
    study.results = study.results.rename(study.folder / "published")
    study.set("results", "published")


def renamed(old: str, new: str, key: str, value: str = "") -> Callable[[Copied], object]:
    """A user's file or folder gets another name, and the config says so."""

    def rename(study: Copied) -> None:
        (study.folder / new).parent.mkdir(exist_ok=True)
        (study.folder / old).rename(study.folder / new)
        study.set(key, value or new)

    return rename


def linked_model(study: Copied) -> None:
    (study.folder / "linked").symlink_to(study.folder / "model")
    study.set("model.path", "linked")


def absolute(key: str, path: str) -> Callable[[Copied], object]:
    return lambda study: study.set(key, str(study.folder / path))


def rename_arm(study: Copied) -> None:
    arms = study.config["arms"]["arms"]
    study.config["arms"]["arms"] = {"blend" if name == "mixed" else name: arm for name, arm in arms.items()}


def rename_set(study: Copied) -> None:
    study.config["data"]["evaluation"] = {"final_exam": study.config["data"]["evaluation"]["exam"]}


def reorder(study: Copied) -> None:
    def backwards(value):
        return {key: backwards(value[key]) for key in reversed(value)} if isinstance(value, dict) else value

    study.config = {**backwards(study.config), "arms": study.config["arms"]}


def other_weights(study: Copied) -> None:
    weights = study.folder / "model" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)


#: The runs get the newest times, as in a download by name.
LOSE_TIMES = several(lose_snakemake, times(lambda files: files))
#: A clone of the project, into which only the results are copied, without times.
FRESH_CLONE = several(lambda study: move(study, shutil.copy), LOSE_TIMES)
#: Records of earlier versions: `run.json` has no form, and answers do not name their run.
AS_EARLIER_VERSIONS = several(
    *(records(f"runs/*/seed0/{name}", lambda record: record.pop("form")) for name in ("run.json", ".run.json")),
    records("evaluation/*/*/seed0/*.json", lambda record: record["inputs"].pop("run")),
)
COMMENTS = several(*(text(f"my_{name}.py", "def", "# a comment\ndef") for name in ("rewards", "metrics")))
OF_MIXED = "evaluation/*/mixed-*/seed0"


MIXED = frozenset({"mixed/seed0"})
#: Every place at once, after a copy without times.
ELSEWHERE = several(
    FRESH_CLONE,
    renamed("model", "models/warm", "model.path", "./models/warm/"),
    renamed("data/train.jsonl", "problems/rows.jsonl", "data.train.path"),
    renamed("data/exam.jsonl", "problems/final.jsonl", "data.evaluation.exam.path"),
    absolute("data.train.path", "problems/rows.jsonl"),
    absolute("data.evaluation.exam.path", "problems/final.jsonl"),
    rename_set,
    rename_arm,
)
TABLE = [
    Row("nothing", lambda study: None),
    # copies, and file times
    Row("without .snakemake and file times", LOSE_TIMES, really=True),
    Row("the same, copied in the other order", several(lose_snakemake, times(reversed))),
    Row("file times reversed", times(lambda files: sorted(files, key=lambda file: -file.stat().st_mtime_ns))),
    Row("touch of the runs", touched("runs/*/seed0/run.json"), really=True),
    Row("touch of models and data", touched("models/*/model.json", "data/**/*.parquet")),
    Row("touch of the answers", touched("evaluation/*/*/*.parquet", "evaluation/*/*/seed0/*.*")),
    Row("snakemake --touch, after a copy without times", several(LOSE_TIMES, lambda study: study.make("--touch"))),
    Row("--rerun-triggers mtime, after such a copy", several(LOSE_TIMES, options("--rerun-triggers", "mtime"))),
    Row("--rerun-triggers code input mtime params", options("--rerun-triggers", "code", "input", "mtime", "params")),
    Row("project moved", move),
    Row("results in a fresh clone", FRESH_CLONE),
    Row("results behind a symbolic link", symlink_results),
    Row("results in another folder, by the config", rename_results),
    # other paths and names of the same content
    Row("model: ./model", config("model.path", "./model"), really=True, dry=False),
    Row("model: data/../model", config("model.path", "data/../model"), dry=False),
    Row("model: absolute", absolute("model.path", "model"), dry=False),
    Row("model: symbolic link", linked_model, dry=False),
    Row("model: another name, without .snakemake", several(lose_snakemake, renamed("model", "warm", "model.path"))),
    Row("every place at once, after a copy without times", ELSEWHERE),
    Row(
        "an arm dropped, keys in another order, comments",
        several(config("arms.arms.short", None), reorder, COMMENTS),
        dry=False,
    ),
    # earlier versions
    Row("records of earlier versions, without file times", several(AS_EARLIER_VERSIONS, LOSE_TIMES), really=True),
    # content
    Row("a row of the training set", text("data/train.jsonl", "?", "??"), RUNS, RUNS, RUNS),
    Row("a row of the exam", text("data/exam.jsonl", "?", "??"), NONE, MODELS, MODELS, really=True),
    Row("a weight of the model, at the same path", other_weights, RUNS, MODELS, MODELS),
    Row("code of a reward", text("my_rewards.py", "<=", "<"), RUNS, RUNS, RUNS),
    Row("code of a metric", text("my_metrics.py", "len", "id"), NONE, NONE, MODELS),
    Row("a setting of evaluation", config("evaluation.max_new_tokens", 9), NONE, MODELS, MODELS),
    Row("a weight of an arm", config("arms.arms.mixed.weights.brevity", 0.6), MIXED, MIXED, MIXED, really=True),
    Row("a seed added", config("seeds", [0, 1]), *[frozenset({"mixed/seed1", "short/seed1"})] * 3),
    Row("answers removed", lambda study: found(study, f"{OF_MIXED}/*.parquet")[0].unlink(), NONE, MIXED, MIXED),
    Row(
        "answers of an earlier training",
        records(f"{OF_MIXED}/*.json", lambda record: record["inputs"].update(run="0" * 64)),
        *(NONE, MIXED, MIXED),
        really=True,
    ),
    Row(
        "answers that name no run, and a run of this version",
        records(f"{OF_MIXED}/*.json", lambda record: record["inputs"].pop("run")),
        *(NONE, MIXED, MIXED),
    ),
]


def make_study(folder: Path) -> None:
    """Train, evaluate and score a study of the user's own files."""
    fetch(DemoModel(source="demo", samples=20, steps=1), folder / "model" / "model.json")
    (folder / "model" / "model.json").unlink()
    (folder / "my_rewards.py").write_text(REWARDS)
    (folder / "my_metrics.py").write_text(METRICS)
    for name, count, split in (("train", 32, "train"), ("exam", 6, "test")):
        rows = [{key: row[key] for key in ("question", "answer")} for row in generate(count, 0, split)]
        (folder / "data").mkdir(exist_ok=True)
        (folder / "data" / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Study(folder, CONFIG).make("--until", "score")


@pytest.fixture(scope="module")
def finished_copy(tmp_path_factory) -> Copied:
    """The study after its runs were trained, evaluated and scored."""
    return Copied(made_once(tmp_path_factory, "copies", make_study), CONFIG)


@pytest.fixture
def copy(finished_copy, tmp_path) -> Copied:
    return finished_copy.copied(tmp_path / "study")


def planned(study: Copied) -> tuple[int, int, int]:
    """How many runs are trained, and how many files are evaluated and scored, by `reward-ablation plan`."""
    first = study.plan().splitlines()[0]
    patterns = (r": (\d+) of", r"(\d+) evaluations? to make", r"(\d+) files? of answers to score")
    return tuple(int(match[1]) if (match := re.search(pattern, first)) else 0 for pattern in patterns)


def jobs(printed: str) -> tuple[set[str], set[str], set[str]]:
    """The models that jobs train, evaluate and score, by the messages of their jobs, without keys."""
    printed = re.sub(r"-[0-9a-f]{8}/seed", "/seed", printed).replace("the base model", "base")
    trained = re.findall(r"\btrain (\S+/seed\d+); GPUs", printed)
    evaluated = re.findall(r"\bevaluate (\S+/seed\d+|base)$", printed, re.MULTILINE)
    return {*trained}, {*evaluated}, {*re.findall(r"\bscore the answers of (\S+) to ", printed)}


def made(study: Copied) -> dict[str, tuple[int, bytes]]:
    """Identity of the models of runs, and the bytes of their records, of answers and of scores."""
    patterns = ("runs/*/seed*/model/*", "runs/*/seed*/run.json", "evaluation/*/**/*.json", "scores/*/**/*.parquet")
    paths = [path for pattern in patterns for path in study.results.glob(pattern)]
    return {str(path.relative_to(study.results)): (path.stat().st_ino, path.read_bytes()) for path in paths}


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_the_plan_and_a_dry_run_say_the_same(copy, row):
    row.change(copy)
    expected = (set(row.trains), set(row.evaluates), set(row.scores))
    assert planned(copy) == tuple(map(len, expected))
    if row.dry:
        assert jobs(copy.make("--dry-run")) == expected


@pytest.mark.long
@pytest.mark.parametrize("row", [row for row in TABLE if row.really], ids=lambda row: row.name)
def test_a_start_does_so(copy, row):
    row.change(copy)
    expected = (set(row.trains), set(row.evaluates), set(row.scores))
    before = made(copy)
    assert jobs(copy.make("--until", "score")) == expected
    assert any(expected) or made(copy) == before
    assert planned(copy) == (0, 0, 0)


@pytest.mark.usefixtures("_blank_figures")
def test_tables_take_results_whose_inputs_lie_elsewhere(copy):
    ELSEWHERE(copy)
    before = made(copy)
    assert jobs(copy.make("results/tiny/tables/summary.md")) == (NONE, NONE, NONE)
    assert made(copy) == before
    assert "Evaluated on final_exam" in (copy.results / "tables" / "summary.md").read_text()
