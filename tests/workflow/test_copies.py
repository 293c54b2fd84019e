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

from configs import REMOVE, changed
from reward_ablation.config.sections.model import DemoModel
from reward_ablation.data.word_problems import generate
from reward_ablation.models.fetch import fetch

from .conftest import TINY, Study, made_once

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
    """A study whose config's text and options can be changed, too."""

    comment = ""
    options: tuple[str, ...] = ()

    def snakemake(self, *arguments: str, config: str = "config.yaml"):
        if self.comment:
            (self.folder / "comment.yaml").write_text(self.comment)
        return super().snakemake(*self.options, *arguments, config=config)

    def set(self, path: str, value: object) -> None:
        """Set a key of the config; `None` takes it out."""
        changed(self.config, path.replace(".", "/"), REMOVE if value is None else value)

    def replace(self, file: str, old: str, new: str) -> None:
        """Edit a file at the first place."""
        text = (self.folder / file).read_text()
        assert old in text
        (self.folder / file).write_text(text.replace(old, new, 1))

    def records(self, pattern: str) -> list[Path]:
        found = sorted(self.results.glob(pattern))
        assert found
        return found

    def edit(self, pattern: str, change: Callable[[dict], object]) -> None:
        """Edit JSON files below the results folder."""
        for path in self.records(pattern):
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


def config(path: str, value: object) -> Callable[[Copied], object]:
    return lambda study: study.set(path, value)


def files_of(study: Copied) -> list[Path]:
    return sorted(path for path in study.folder.rglob("*") if path.is_file() and ".snakemake" not in path.parts)


def timed(files: Iterable[Path]) -> None:
    """Give files increasing times, one second after the other."""
    for number, file in enumerate(files):
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))


def lose_snakemake(study: Copied) -> None:
    shutil.rmtree(study.folder / ".snakemake")


def lose_times(study: Copied) -> None:
    """The runs get the newest times, as in a download by name."""
    lose_snakemake(study)
    timed(files_of(study))


def lose_times_backwards(study: Copied) -> None:
    lose_snakemake(study)
    timed(reversed(files_of(study)))


def reverse_times(study: Copied) -> None:
    timed(sorted(files_of(study), key=lambda file: -file.stat().st_mtime_ns))


def touched(pattern: str) -> Callable[[Copied], object]:
    return lambda study: [os.utime(path) for path in study.records(pattern)]


def move(study: Copied, copy_function: Callable = shutil.copy2) -> None:
    """The project's folder gets another place."""
    elsewhere = study.folder.with_name("elsewhere")
    shutil.copytree(study.folder, elsewhere, copy_function=copy_function)
    shutil.rmtree(study.folder)
    study.folder, study.results = elsewhere, elsewhere / study.results.relative_to(study.folder)


def fresh_clone(study: Copied) -> None:
    """A clone of the project, into which only the results are copied, without times."""
    move(study, copy_function=shutil.copy)
    lose_times(study)


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


def linked(old: str, new: str, key: str) -> Callable[[Copied], object]:
    def make(study: Copied) -> None:
        (study.folder / new).symlink_to(study.folder / old)
        study.set(key, new)

    return make


def absolute(*keys: str) -> Callable[[Copied], object]:
    def make(study: Copied) -> None:
        for key in keys:
            section = study.config
            for part in key.split("."):
                section = section[part]
            study.set(f"{key}.path", str(study.folder / section["path"]))

    return make


def rename_arm(study: Copied) -> None:
    arms = study.config["arms"]["arms"]
    study.config["arms"]["arms"] = {"blend" if name == "mixed" else name: arm for name, arm in arms.items()}


def rename_set(study: Copied) -> None:
    study.config["data"]["evaluation"] = {"final_exam": study.config["data"]["evaluation"]["exam"]}


def reorder(study: Copied) -> None:
    def backwards(value):
        return {key: backwards(value[key]) for key in reversed(value)} if isinstance(value, dict) else value

    study.config = {**backwards(study.config), "arms": study.config["arms"]}


def comments(study: Copied) -> None:
    study.replace("my_rewards.py", "def", "# a comment\ndef")
    study.replace("my_metrics.py", "def", "# a comment\ndef")
    study.comment = "# a comment\n{}\n"


def other_weights(study: Copied) -> None:
    weights = study.folder / "model" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)


def as_earlier_versions(study: Copied) -> None:
    """Records of earlier versions: `run.json` has no form, and answers do not name their run."""
    study.edit("runs/*/seed0/run.json", lambda record: record.pop("form"))
    study.edit("runs/*/seed0/.run.json", lambda record: record.pop("form"))
    study.edit("evaluation/*/*/seed0/*.json", lambda record: record["inputs"].pop("run"))


def of_earlier_training(study: Copied) -> None:
    study.edit("evaluation/*/mixed-*/seed0/*.json", lambda record: record["inputs"].update(run="0" * 64))


def without_answers(study: Copied) -> None:
    [answers] = study.records("evaluation/*/mixed-*/seed0/*.parquet")
    answers.unlink()


def snakemake_touch(study: Copied) -> None:
    lose_times(study)
    result = study.snakemake("--touch")
    assert result.returncode == 0, result.stdout + result.stderr


def options(*words: str) -> Callable[[Copied], object]:
    def make(study: Copied) -> None:
        study.options = words

    return make


ANSWERS = "evaluation/*/*/*.parquet"
MIXED = frozenset({"mixed/seed0"})
#: Every place at once, after a copy without times.
ELSEWHERE = several(
    fresh_clone,
    renamed("model", "models/warm", "model.path", "./models/warm/"),
    renamed("data/train.jsonl", "problems/rows.jsonl", "data.train.path"),
    renamed("data/exam.jsonl", "problems/final.jsonl", "data.evaluation.exam.path"),
    absolute("data.train", "data.evaluation.exam"),
    rename_set,
    rename_arm,
)
TABLE = [
    Row("nothing", lambda study: None),
    # copies, and file times
    Row("without .snakemake and file times", lose_times, really=True),
    Row("the same, copied in the other order", lose_times_backwards),
    Row("file times reversed", reverse_times),
    Row("touch of the runs", touched("runs/*/seed0/run.json"), really=True),
    Row("touch of models and data", several(touched("models/*/model.json"), touched("data/**/*.parquet"))),
    Row("touch of the answers", several(touched(ANSWERS), touched("evaluation/*/*/seed0/*.*"))),
    Row("snakemake --touch, after a copy without times", snakemake_touch),
    Row("--rerun-triggers mtime, after such a copy", several(lose_times, options("--rerun-triggers", "mtime"))),
    Row("--rerun-triggers code input mtime params", options("--rerun-triggers", "code", "input", "mtime", "params")),
    Row("project moved", move),
    Row("results in a fresh clone", fresh_clone),
    Row("results behind a symbolic link", symlink_results),
    Row("results in another folder, by the config", rename_results),
    # other paths and names of the same content
    Row("model: ./model", config("model.path", "./model"), really=True, dry=False),
    Row("model: data/../model", config("model.path", "data/../model"), dry=False),
    Row("model: absolute", absolute("model"), dry=False),
    Row("model: symbolic link", linked("model", "linked", "model.path"), dry=False),
    Row("model: another name, without .snakemake", several(lose_snakemake, renamed("model", "warm", "model.path"))),
    Row("every place at once, after a copy without times", ELSEWHERE),
    Row(
        "an arm dropped, keys in another order, comments",
        several(config("arms.arms.short", None), reorder, comments),
        dry=False,
    ),
    # earlier versions
    Row("records of earlier versions, without file times", several(as_earlier_versions, lose_times), really=True),
    # content
    Row("a row of the training set", lambda s: s.replace("data/train.jsonl", "?", "??"), RUNS, RUNS, RUNS),
    Row("a row of the exam", lambda s: s.replace("data/exam.jsonl", "?", "??"), NONE, MODELS, MODELS, really=True),
    Row("a weight of the model, at the same path", other_weights, RUNS, MODELS, MODELS),
    Row("code of a reward", lambda s: s.replace("my_rewards.py", "<=", "<"), RUNS, RUNS, RUNS),
    Row("code of a metric", lambda s: s.replace("my_metrics.py", "len", "id"), NONE, NONE, MODELS),
    Row("a setting of evaluation", config("evaluation.max_new_tokens", 9), NONE, MODELS, MODELS),
    Row("a weight of an arm", config("arms.arms.mixed.weights.brevity", 0.6), MIXED, MIXED, MIXED, really=True),
    Row("a seed added", config("seeds", [0, 1]), *[frozenset({"mixed/seed1", "short/seed1"})] * 3),
    Row("answers removed", without_answers, NONE, MIXED, MIXED),
    Row("answers of an earlier training", of_earlier_training, NONE, MIXED, MIXED, really=True),
    Row(
        "answers that name no run, and a run of this version",
        lambda s: s.edit("evaluation/*/mixed-*/seed0/*.json", lambda record: record["inputs"].pop("run")),
        NONE,
        MIXED,
        MIXED,
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
    result = Copied(folder, CONFIG).snakemake("--until", "score")
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.fixture(scope="module")
def finished_copy(tmp_path_factory) -> Copied:
    """The study after its runs were trained, evaluated and scored."""
    return Copied(made_once(tmp_path_factory, "copies", make_study), CONFIG)


@pytest.fixture
def copy(finished_copy, tmp_path) -> Copied:
    """A copy, file times and Snakemake's records included."""
    shutil.copytree(finished_copy.folder, tmp_path / "study")
    return Copied(tmp_path / "study", CONFIG)


def without_key(model: str) -> str:
    return re.sub(r"-[0-9a-f]{8}/", "/", model)


def planned(study: Copied) -> tuple[int, int, int]:
    """How many runs are trained, and how many files are evaluated and scored, by `reward-ablation plan`."""
    result = study.command("plan", "--quick")
    assert result.returncode == 0, result.stdout + result.stderr
    first = result.stdout.splitlines()[0]
    patterns = (r": (\d+) of", r"(\d+) evaluations? to make", r"(\d+) files? of answers to score")
    return tuple(int(found[1]) if (found := re.search(pattern, first)) else 0 for pattern in patterns)


def jobs(printed: str) -> tuple[set[str], set[str], set[str]]:
    """The models that jobs train, evaluate and score, by the messages of their jobs."""
    trained = re.findall(r"\btrain (\S+/seed\d+); GPUs", printed)
    evaluated = re.findall(r"\bevaluate (\S+/seed\d+|the base model)$", printed, re.MULTILINE)
    scored = re.findall(r"\bscore the answers of (\S+) to ", printed)
    named = [name.replace("the base model", "base") for name in evaluated]
    return tuple({without_key(name) for name in names} for names in (trained, named, scored))


def made(study: Copied) -> dict[str, tuple[int, bytes]]:
    """Identity of the models of runs, and the bytes of their records, of answers and of scores."""
    patterns = ("runs/*/seed*/model/*", "runs/*/seed*/run.json", "evaluation/*/**/*.json", "scores/*/**/*.parquet")
    found = [path for pattern in patterns for path in study.results.glob(pattern)]
    return {str(path.relative_to(study.results)): (path.stat().st_ino, path.read_bytes()) for path in found}


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_the_plan_and_a_dry_run_say_the_same(copy, row):
    row.change(copy)
    expected = (set(row.trains), set(row.evaluates), set(row.scores))
    assert planned(copy) == tuple(map(len, expected))
    if not row.dry:
        return
    dry = copy.snakemake("--dry-run")
    assert dry.returncode == 0, dry.stdout + dry.stderr
    assert jobs(dry.stdout + dry.stderr) == expected


@pytest.mark.long
@pytest.mark.parametrize("row", [row for row in TABLE if row.really], ids=lambda row: row.name)
def test_a_start_does_so(copy, row):
    row.change(copy)
    expected = (set(row.trains), set(row.evaluates), set(row.scores))
    before = made(copy)
    start = copy.snakemake("--until", "score")
    assert start.returncode == 0, start.stdout + start.stderr
    assert jobs(start.stdout + start.stderr) == expected
    assert any(expected) or made(copy) == before
    assert planned(copy) == (0, 0, 0)


@pytest.mark.usefixtures("_blank_figures")
def test_tables_take_results_whose_inputs_lie_elsewhere(copy):
    ELSEWHERE(copy)
    before = made(copy)
    start = copy.snakemake("--", "results/tiny/tables/summary.md")
    assert start.returncode == 0, start.stdout + start.stderr
    assert jobs(start.stdout + start.stderr) == (NONE, NONE, NONE)
    assert made(copy) == before
    assert "Evaluated on final_exam" in (copy.results / "tables" / "summary.md").read_text()
