"""Damaged results of finished runs and evaluations are found by size and reported in a line. Whole results pass."""

import json
import os
import shutil

import pytest

from reward_ablation.start.decide import DAMAGED, PUT_BACK, Decisions
from reward_ablation.start.history import NAMELESS, Damage
from reward_ablation.start.plan import DAMAGED_RESULTS, plan_of, plan_text, summary
from reward_ablation.start.status import State, read_status, status_text
from reward_ablation.study.answers_record import FORM, NAMING
from reward_ablation.study.resolve import resolve
from reward_ablation.study.run_folder import HIDDEN_RECORD, RECORD
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import sha256, write_json

from .left_behind import NOW, LeftBehind, attempt


@pytest.fixture
def left(config, tmp_path):
    """A study of four runs on two GPUs that keep a model: all are finished and evaluated."""
    config["launch"] = {"gpus": 2}
    config["keep_models"] = 5
    left = LeftBehind(resolve(config, "study.yaml", tmp_path))
    for run in left.runs:
        left.finish_whole(run, attempt(1800), gpu_hours=1.25)
    [dataset] = left.study.datasets
    for model in ("base", *left.study.runs):
        left.answer(model, dataset)
    for run in left.runs:
        left.answer(run.name, f"{dataset}.steps")
    return left


@pytest.fixture
def run(left):
    return left.runs[0]


def plan_for(left, evaluations=(), **kept):
    return plan_of(Decisions(left.study, **kept), evaluations=evaluations, scorings=0)


def of_run(left, run):
    """What is damaged of a run, by its record."""
    return Damage(left.study).of_run(run.name, json.loads((left.folder(run) / RECORD).read_text()))


def cut(path, size=3):
    os.truncate(path, size)


def remove(path):
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def grow(path):
    path.write_bytes(path.read_bytes() + b"more")


def without_sizes(left, run):
    """The record of a run as older versions wrote it."""
    path = left.folder(run) / RECORD
    record = json.loads(path.read_text())
    del record["sizes"]
    path.write_text(json.dumps(record))


def test_whole_results_are_not_damaged(left):
    assert Damage(left.study).all_answers() == {}
    assert plan_for(left).training == []
    for run in left.runs:
        without_sizes(left, run)
    assert plan_for(left).training == []


@pytest.mark.parametrize(
    ("harm", "file", "problem"),
    [
        (cut, "rollouts.parquet", "has 3 bytes instead of 40"),
        (grow, "rollouts.parquet", "has 44 bytes instead of 40"),
        (remove, "gradients.parquet", "is missing"),
        (remove, "model-step5/adapter_model.safetensors", "is missing"),
    ],
)
def test_a_run_with_a_damaged_file_is_trained_again(left, run, harm, file, problem):
    harm(left.folder(run) / file)
    words = f"{file} {problem}"
    assert of_run(left, run) == words
    for code_counts in (True, False):  # damage has nothing to do with code
        [planned] = plan_for(left, code_counts=code_counts).training
        assert (planned.run, planned.why, planned.damage, planned.hours) == (run, DAMAGED, words, 1.25)


@pytest.mark.parametrize(
    ("harm", "file", "words"),
    [
        (cut, "rollouts.parquet", None),  # nothing in the record says so; `verify` does
        (lambda path: cut(path, 0), "rollouts.parquet", "rollouts.parquet is empty"),
        (lambda path: None, "empty.txt", None),  # was written without a byte
    ],
)
def test_of_a_record_without_sizes_what_is_there_is_compared(left, run, harm, file, words):
    without_sizes(left, run)
    harm(left.folder(run) / file)
    assert of_run(left, run) == words


def test_a_deleted_model_is_not_missed(left, run):
    """Not even if its answers are missing: a user who freed space must not pay for another training unasked."""
    [dataset] = left.study.datasets
    answers = left.root / left.study.answers_folder / run.name
    for model, file in (("model", f"{dataset}.parquet"), ("model-step5", f"{dataset}.steps.parquet")):
        remove(left.folder(run) / model)
        assert of_run(left, run) is None
        (answers / file).rename(answers / "kept")
        assert of_run(left, run) is None
        (answers / "kept").rename(answers / file)
        assert of_run(left, run) is None


def test_an_unreadable_record_is_put_back_where_its_copy_and_all_files_are_whole(left, run):
    folder = left.folder(run)
    shutil.copy2(folder / RECORD, folder / HIDDEN_RECORD)
    for harm in (cut, remove):
        harm(folder / RECORD)
        assert plan_for(left).training == []
        assert plan_for(left).runs[0].why == PUT_BACK
    cut(folder / "rollouts.parquet")
    [planned] = plan_for(left).training
    assert (planned.why, planned.damage) == (DAMAGED, "rollouts.parquet has 3 bytes instead of 40")


def test_a_file_that_cannot_be_looked_at_is_not_damaged(left, run):
    """A file system that answers with an error may answer later: nothing is trained for that."""
    loop = left.folder(run) / "rollouts.parquet"
    loop.unlink()
    loop.symlink_to(loop)
    with pytest.raises(
        StudyError, match=r"rollouts\.parquet: Too many levels of symbolic links; make the file readable"
    ):
        plan_for(left)


def test_damaged_answers(left, run):
    [dataset] = left.study.datasets
    folder = left.root / left.study.answers_folder
    # Every evaluation of a run that this version trained names the training.
    record = left.folder(run) / RECORD
    written = record.read_text()
    write_json({**json.loads(written), FORM: NAMING}, record)
    file = f"{left.study.answers_folder}/{run.name}/{dataset}.parquet"
    assert Damage(left.study).of_answers(run.name)[file] == NAMELESS
    record.write_text(written)
    cut(folder / "base" / f"{dataset}.parquet")
    remove(folder / run.name / f"{dataset}.parquet")  # Snakemake sees this itself
    cut(folder / run.name / f"{dataset}.steps.parquet", 0)
    assert Damage(left.study).all_answers() == {
        f"{left.study.answers_folder}/base/{dataset}.parquet": "has 3 bytes instead of 7",
        f"{left.study.answers_folder}/{run.name}/{dataset}.steps.parquet": "has 0 bytes instead of 7",
    }
    for record in folder.rglob("*.json"):  # of older versions, or lost
        record.unlink()
    assert list(Damage(left.study).all_answers().values()) == ["is empty"]


def test_answers_of_an_earlier_training_are_made_again(left, run):
    """Snakemake keeps the answers of before where the evaluation of a run fails that was trained again."""
    [dataset] = left.study.datasets
    trained = sha256(left.folder(run) / RECORD)
    for file in (f"{dataset}.json", f"{dataset}.steps.json"):
        path = left.root / left.study.answers_folder / run.name / file
        write_json({**json.loads(path.read_text()), "inputs": {"run": trained}}, path)
    assert Damage(left.study).all_answers() == {}
    again = {**json.loads((left.folder(run) / RECORD).read_text()), "wall_seconds": 7}
    write_json(again, left.folder(run) / RECORD)
    folder = f"{left.study.answers_folder}/{run.name}"
    files = [f"{folder}/{dataset}.parquet", f"{folder}/{dataset}.steps.parquet"]
    assert Damage(left.study).all_answers() == dict.fromkeys(files, "is of an earlier training of the run")
    status = status_text(read_status(Decisions(left.study), [], now=NOW))
    assert "evaluations: 7 of 9 done" in status
    line = f"damaged: results/study/{files[0]} is of an earlier training of the run; the answers are made again"
    assert line in status.splitlines()
    (left.folder(run) / RECORD).unlink()  # the run is trained again, and then evaluated
    assert Damage(left.study).all_answers() == {}


def test_plan_and_status_say_what_is_damaged_in_a_line_each(left, run):
    [dataset] = left.study.datasets
    cut(left.folder(run) / "rollouts.parquet")
    remove(left.folder(run) / "metrics.parquet")
    cut(left.root / left.study.answers_folder / "base" / f"{dataset}.parquet")
    plan = plan_for(left)
    line = (
        f"damaged: results/study/runs/{run.name}/metrics.parquet is missing, and 1 more file is damaged; "
        "the run is trained again (1.2 GPU hours)"
    )
    assert plan_text(plan).splitlines()[2] == "train, 1 run: its files are damaged"
    assert line in plan_text(plan).splitlines()
    assert summary(plan).startswith("study study: 1 run to train (its files are damaged); about ")

    status = read_status(Decisions(left.study), [], now=NOW)
    assert status.runs[0].state is State.DAMAGED
    text = status_text(status).splitlines()
    assert text[0] == "study study, 4 runs: 3 done, 1 damaged"
    assert text[2].startswith(
        f"{run.name}  damaged      metrics.parquet is missing, and 1 more file is damaged, will be"
    )
    assert text[7] == "evaluations: 6 of 9 done, the base model's included"  # not base, nor those of the damaged run
    answers = f"results/study/{left.study.answers_folder}/base/{dataset}.parquet"
    assert text[8] == f"damaged: {answers} has 3 bytes instead of 7; the answers are made again"


def test_many_damaged_runs_are_not_all_listed(config, tmp_path):
    config["seeds"] = list(range(12))
    left = LeftBehind(resolve(config, "study.yaml", tmp_path))
    for run in left.runs:
        left.finish_whole(run, attempt(1))
        cut(left.folder(run) / "rollouts.parquet")
    lines = plan_text(plan_for(left)).splitlines()
    assert len([line for line in lines if line.startswith("damaged: ")]) == DAMAGED_RESULTS
    assert "and 4 more damaged runs" in lines
