"""Finished runs of other results folders, taken over on request, whole or with scores made from stored texts."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sys
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reward_ablation.data.problems import prepare
from reward_ablation.start import adopt as module
from reward_ablation.start.adopt import adopt, elsewhere_lines, finished_in
from reward_ablation.start.data_files import parsed, sets_of
from reward_ablation.start.decide import Decisions
from reward_ablation.start.rescore import _is_text, _scores
from reward_ablation.study.resolve import resolve
from reward_ablation.study.run_folder import HIDDEN_RECORD, LOCK, RECORD, WORK
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import sha256, write_json
from reward_ablation.system.locks import take


@pytest.fixture
def other(left):
    """The results of the finished study under another name, beside the results folder, which is empty."""
    other = left.root.with_name("renamed")
    left.root.rename(other)
    return other


def change(path, **changes):
    write_json({**json.loads(path.read_text()), **changes}, path)


def first(folder, pattern):
    return min(folder.glob(pattern))


def files_of(folder):
    return {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}


def contents(folder):
    return {name: path.read_bytes() for name, path in files_of(folder).items()}


def test_a_study_that_takes_over_its_runs_makes_nothing(left, other, tmp_path):
    """Links and unfinished work are not taken over."""
    (other / left.study.model_file).parent.with_suffix(".json").write_text("{}")  # as of a supervised start
    run = first(other, "runs/*/seed0")
    (tmp_path / "secret").write_text("secret")
    (run / "link").symlink_to(tmp_path / "secret")
    (run / WORK).mkdir()
    (run / WORK / "owner.json").write_text("{}")
    before = contents(other)
    [line] = elsewhere_lines(Decisions(left.study))
    assert line.startswith("4 of these runs are finished in ")
    assert line.endswith("renamed")
    assert adopt(other, Decisions(left.study)) == f"took over 4 finished runs from {other}"
    after = Decisions(left.study)
    assert not [each for each in after.runs.values() if each.trains]
    assert (after.evaluations, after.scorings, after.inputs_to_make) == ([], [], set())
    assert elsewhere_lines(after) == []
    assert contents(other) == before
    not_taken = (LOCK, "/link", "/owner.json")
    own = {name: path for name, path in files_of(left.root).items() if not name.endswith(LOCK)}
    assert set(own) == {name for name in before if not name.endswith(not_taken)}
    assert all(os.path.samefile(path, other / name) for name, path in own.items())


@pytest.mark.parametrize(
    ("happens", "why"),
    [
        (lambda run: change(run / RECORD, code="old"), "training code changed"),
        (lambda run: (run / "model" / "model.safetensors").write_text("cut"), "model/model.safetensors has 3 bytes"),
    ],
)
def test_a_run_that_a_start_would_not_keep_is_not_taken_over(left, other, happens, why):
    runs = sorted(other.glob("runs/*/*"))
    happens(runs[0])
    assert len(finished_in(other, Decisions(left.study))) == 3
    for run in runs[1:]:
        (run / RECORD).unlink()
    with pytest.raises(StudyError, match=rf"--adopt .*: nothing to take over; runs/.*: {why}"):
        adopt(other, Decisions(left.study))
    with pytest.raises(StudyError, match="has no folder"):
        adopt(other / "nowhere", Decisions(left.study))
    assert not left.root.exists()


def test_what_is_here_is_never_replaced(left, other):
    run = min(left.study.runs)
    (left.root / "runs" / run).mkdir(parents=True)
    with take(left.root / "runs" / run / LOCK):  # it is being trained
        assert adopt(other, Decisions(left.study)).startswith("took over 3 finished runs")
    assert not (left.root / "runs" / run / RECORD).exists()
    shutil.rmtree(left.root)
    shutil.copytree(other, left.root)
    damaged = first(left.root, "runs/*/seed0/rollouts.parquet")
    damaged.write_text("damaged")
    with pytest.raises(StudyError, match="nothing to take over"):
        adopt(other, Decisions(left.study))
    assert damaged.read_text() == "damaged"


@pytest.mark.parametrize("ends", [False, True])
def test_a_run_that_a_start_trains_meanwhile_is_left_to_it(left, other, monkeypatch, ends):
    """A start may begin, or end, a run after it was found missing here."""
    first_run, *others = sorted(left.study.runs)
    here, take_one = left.root / "runs" / first_run, module.take

    def began(lock):
        if lock.parent == here:
            trainer = take_one(lock)
            (here / "rollouts.parquet").write_text("its own")
            if ends:
                (here / RECORD).write_text("{}")
                trainer.release()
        return take_one(lock)

    monkeypatch.setattr(module, "take", began)
    assert adopt(other, Decisions(left.study)).startswith(f"took over {len(others)} finished runs")
    assert {path.name for path in here.iterdir()} == {LOCK, "rollouts.parquet", *([RECORD] * ends)}
    assert (here / "rollouts.parquet").read_text() == "its own"


def test_scores_are_taken_over_with_the_answers_that_they_are_of(left, other):
    """Own answers that are not scored yet stay, and so do answers of older versions, without a record."""
    models = ("base", min(left.study.runs))
    for model, text in zip(models, ("own ans", "older"), strict=True):
        folder = f"{left.study.answers_folder}/{model}"
        [answers] = (other / folder).glob("*.parquet")
        (left.root / folder).mkdir(parents=True)
        (left.root / folder / answers.name).write_text(text)
    adopt(other, Decisions(left.study))
    own = contents(left.root)
    assert {own[f"{left.study.answers_folder}/{model}/{answers.name}"] for model in models} == {b"own ans", b"older"}
    assert f"{left.study.answers_folder}/{models[1]}/{answers.stem}.json" not in own
    scored = {name for name in left.study.scores if not any(f"/{model}/" in name for model in models)}
    assert {name for name in own if name.startswith("scores/") and name.endswith(".parquet")} == scored


def test_what_an_interrupted_training_left_is_replaced(left, other):
    shutil.copytree(other, left.root)
    run = first(left.root, "runs/*/seed0")
    (run / RECORD).unlink()
    (run / "model" / "model.safetensors").write_bytes(b"of another training".ljust(40, b"."))
    (run / "rollouts.parquet").write_bytes(b"older")
    (run / HIDDEN_RECORD).write_text(json.dumps({"code": "old"}))
    (run / "notes.txt").write_text("the user's own")
    assert adopt(other, Decisions(left.study)).startswith("took over 1 finished run ")
    assert not any(each.trains for each in Decisions(left.study).runs.values())
    assert {**contents(other / run.relative_to(left.root)), "notes.txt": b"the user's own"} == contents(run)
    assert (run / "notes.txt").exists()


@pytest.mark.parametrize("by_runs", [True, False])
def test_inputs_that_changed_since_are_not_taken_over(left, other, by_runs):
    changed = other / left.study.problems_file
    if by_runs:
        for record in other.glob(f"runs/*/*/{RECORD}"):
            change(record, inputs={"problems": sha256(changed)})
    else:
        change(changed.with_suffix(".json"), sha256=sha256(changed))
    changed.write_text("changed")
    assert adopt(other, Decisions(left.study)).startswith("took over 4 finished runs")
    assert not (left.root / left.study.problems_file).exists()
    assert (left.root / left.study.model_file).exists()


def test_a_run_that_any_code_keeps_is_not_replaced(left, other):
    """Of its records only the hidden one is there, as after a start that Snakemake broke off."""
    here = min(left.study.runs)
    run = left.root / "runs" / here
    shutil.copytree(other / "runs" / here, run)
    change(run / RECORD, code="old")
    (run / RECORD).rename(run / HIDDEN_RECORD)
    before = contents(run)
    assert adopt(other, Decisions(left.study, code_counts=False)).startswith("took over 3 finished runs")
    assert contents(run) == before


def test_runs_of_other_inputs_than_those_here_are_refused(left, other):
    """These are inputs of two runs each, and no run has both."""
    files = {"problems": left.study.problems_file, "model": left.study.model_file}
    for named, record in zip(itertools.cycle(files), sorted(other.glob(f"runs/*/*/{RECORD}"))):
        change(record, inputs={"problems": "other", "model": "other", named: sha256(other / files[named])})
    with pytest.raises(StudyError, match="took over no run; its runs had other inputs than those here"):
        adopt(other, Decisions(left.study))
    assert not (left.root / left.study.answers_folder).exists()


def test_no_run_is_there_before_its_answers(left, other, monkeypatch):
    """A taking over that is killed after any number of files, and made again, leaves no answers to make."""
    take_one, files = module._take, 0

    def killed(*paths):
        nonlocal files
        files -= 1
        if not files:
            raise KeyboardInterrupt
        take_one(*paths)

    for run in sorted(other.glob("runs/*/*"))[1:]:
        (run / RECORD).unlink()
    monkeypatch.setattr(module, "_take", killed)
    for whole in itertools.count(1):
        shutil.rmtree(left.root, ignore_errors=True)
        files = whole
        try:
            adopt(other, Decisions(left.study))
            break
        except KeyboardInterrupt:
            with suppress(StudyError):  # nothing is left to take over
                adopt(other, Decisions(left.study))
            after = Decisions(left.study)
            assert not any(after.evaluations_of(name) for name, each in after.runs.items() if not each.trains)
    assert whole > 20


#: A function that hands its columns on to another file.
HANDS_ON = "from {0} import other\ndef own(completions, **columns):\n    return other(completions, **columns)\n"
READS = "def other(completions, **columns):\n    return [len(set(ids)) for ids in columns['completion_ids']]\n"
LOOKS = "def other(completions, **columns):\n    ids = columns['completion_' + 'ids']\n    return {0}\n"
CATCHES = """
def other(completions, **columns):
    try:
        return [len(set(ids)) for ids in columns["completion_" + "ids"]]
    except Exception:
        return [0.0] * len(completions)
"""


@pytest.fixture
def study(config, tmp_path, monkeypatch):
    """A study with the component `own.py:own` of weight 0, and its prepared problems; `helper.py` is to be written."""
    monkeypatch.delitem(sys.modules, "helper", raising=False)

    def make(own, helper):
        (tmp_path / "own.py").write_text(own)
        (tmp_path / "helper.py").write_text(helper)
        config["components"]["variety"] = {"function": "own.py:own"}
        study = resolve(config, "study.yaml", tmp_path)
        [problems] = [each for each in sets_of(study) if each.file == study.problems_file]
        (study.results / problems.file).parent.mkdir(parents=True, exist_ok=True)
        prepare(parsed(problems.spec), "train", study.results / problems.file, [])
        return study, next(iter(study.runs.values()))

    return make


def rollouts(study, *rows):
    """Rollouts of the first two problems, one after the other: step, completion and its number of tokens."""
    problems = pq.read_table(study.results / study.problems_file)["id"].to_pylist()[:2]
    names = ("step", "completion", "tokens")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    return pa.table({"problem_id": [problems[number % 2] for number in range(len(rows))], **columns})


@pytest.mark.parametrize(
    ("own", "helper", "is_text"),
    [
        (HANDS_ON.format("helper"), "def other(completions, **columns):\n    return [1] * len(completions)\n", True),
        (HANDS_ON.format("helper"), "from third import other\n", False),  # at any depth
        (HANDS_ON.format("reward_ablation.rewards.components.token_length"), "", True),
        (HANDS_ON.format("reward_ablation.rewards.components.random"), "", False),
    ],
)
def test_all_files_that_a_component_reaches_are_searched(study, tmp_path, own, helper, is_text):
    (tmp_path / "third.py").write_text(READS)
    made, run = study(own, helper)
    assert _is_text(made, run, "variety") is is_text


@pytest.mark.parametrize(
    ("helper", "scores"),
    [
        (LOOKS.format("[len(each) for each in ids]"), [3.0, 4.0]),
        (LOOKS.format("[each[0] for each in ids]"), None),
        (CATCHES, None),
    ],
)
def test_tokens_have_a_number_and_nothing_else(study, helper, scores):
    made, run = study(HANDS_ON.format("helper"), helper)
    table = rollouts(made, (1, "a b c", 3), (1, "d e f g", 4))
    if scores:
        assert _scores("variety", run, made, table) == scores
        return
    with pytest.raises(StudyError, match=r"^components.variety: .*reads completion_ids, which no run stores"):
        _scores("variety", run, made, table)


@pytest.mark.parametrize(
    ("rows", "processes", "calls"),
    [(16, 1, [16, 16]), (24, 2, [16, 8, 16, 8]), (2, 1, [2, 2])],
)
def test_a_function_is_called_for_each_process_as_in_training(study, config, rows, processes, calls):
    """A group in several processes is scored by the one that has its first completion."""
    config["launch"] = {"gpus": processes} if processes > 1 else {}
    config["training"] |= {"per_device_train_batch_size": max(rows // processes, 8), "num_generations": 8}
    own = "def own(completions, **columns):\n    return [len(completions)] * len(completions)\n"
    made, run = study(own, "")
    table = rollouts(made, *[(1, "a", 1)] * rows, *[(2, "a", 1)] * rows)
    assert _scores("variety", run, made, table) == [float(size) for size in calls for _ in range(size)]


@pytest.mark.parametrize("installed", [False, True])
def test_the_files_of_a_package_are_searched_too(study, config, tmp_path, monkeypatch, installed):
    """By relative imports, and in an installed package wherever they are."""
    home = tmp_path / "elsewhere" if installed else tmp_path
    (home / "lib_of_own").mkdir(parents=True)
    (home / "lib_of_own" / "__init__.py").write_text("")
    for name, helper in (("reads", "sched"), ("plain", "words")):
        (home / "lib_of_own" / f"{name}.py").write_text(HANDS_ON.format(f".{helper}"))
    (home / "lib_of_own" / "sched.py").write_text("def other(_, trainer_state, **columns): ...\n")
    (home / "lib_of_own" / "words.py").write_text("def other(completions, **columns): ...\n")
    if installed:
        monkeypatch.syspath_prepend(home)
    config["components"] |= {name: {"function": f"lib_of_own.{name}:own"} for name in ("reads", "plain")}
    made, run = study(HANDS_ON.format("helper"), "")
    assert [_is_text(made, run, name) for name in ("reads", "plain")] == [False, not installed]


def test_a_component_that_changes_while_runs_are_made_scores_none_of_the_others(study, tmp_path):
    own = "def own(completions, **columns):\n    return [1.0 for _ in completions]\n"
    made, run = study(own, "")
    table = rollouts(made, (1, "a", 1))
    assert _scores("variety", run, made, table) == [1.0]
    (tmp_path / "own.py").write_text(own.replace("1.0", "2.0"))
    with pytest.raises(StudyError, match=r"own\.py: the file, or one that it imports, has changed since"):
        _scores("variety", run, made, table)
