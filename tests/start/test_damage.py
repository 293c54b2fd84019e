"""Damaged results of finished runs and evaluations are found by size and reported in a line. Whole results pass."""

import json
import os
import shutil

import pytest

from reward_ablation.start.decide import DAMAGED, PUT_BACK, Decisions
from reward_ablation.start.history import NAMELESS, Damage
from reward_ablation.start.plan import plan_of, plan_text, summary
from reward_ablation.start.status import State, read_status, status_text
from reward_ablation.study.answers_record import FORM, NAMING
from reward_ablation.study.run_folder import HIDDEN_RECORD, RECORD
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import write_json

from .left_behind import NOW


@pytest.fixture
def config(config):
    """Runs keep a model."""
    config["keep_models"] = 5
    return config


@pytest.fixture
def run(left):
    return left.runs[0]


def plan_for(left, **kept):
    return plan_of(Decisions(left.study, **kept), evaluations=(), scorings=0)


def cut(path, size=3):
    os.truncate(path, size)


def remove(path):
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def edit(path, **changes):
    write_json({**json.loads(path.read_text()), **changes}, path)


@pytest.mark.parametrize(
    ("harm", "file", "problem"),
    [
        (cut, "rollouts.parquet", "has 3 bytes instead of 40"),
        (remove, "gradients.parquet", "is missing"),
        (remove, "model-step5/adapter_model.safetensors", "is missing"),
    ],
)
def test_a_run_with_a_damaged_file_is_trained_again(left, run, harm, file, problem):
    assert Damage(left.study).all_answers() == {}
    assert plan_for(left).training == []
    harm(left.folder(run) / file)
    for code_counts in (True, False):  # damage has nothing to do with code
        [planned] = plan_for(left, code_counts=code_counts).training
        assert (planned.run, planned.why, planned.damage) == (run, DAMAGED, f"{file} {problem}")
        assert planned.hours == 1.25


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (3, None),  # nothing in the record says so; `verify` does
        (0, "rollouts.parquet is empty"),  # other than `empty.txt`, which was written without a byte
    ],
)
def test_of_a_record_without_sizes_what_is_there_is_compared(left, run, size, words):
    """As older versions wrote it."""
    record = json.loads((left.folder(run) / RECORD).read_text())
    del record["sizes"]
    assert Damage(left.study).of_run(run.name, record) is None
    cut(left.folder(run) / "rollouts.parquet", size)
    assert Damage(left.study).of_run(run.name, record) == words


def test_a_deleted_model_is_not_missed(left, run):
    """Not even if its answers are missing: a user who freed space must not pay for another training unasked."""
    answers = left.root / left.study.answers_folder / run.name
    for model, kind in (("model", ""), ("model-step5", ".steps")):
        remove(left.folder(run) / model)
        assert plan_for(left).training == []
        [file] = answers.glob(f"test-????????{kind}.parquet")
        file.unlink()
        assert plan_for(left).training == []


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
    with pytest.raises(StudyError, match=r"rollouts\.parquet: Too many levels of symbolic links; make the file readab"):
        plan_for(left)


def test_damaged_answers(left, run):
    [dataset] = left.study.datasets
    folder = left.root / left.study.answers_folder
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
    folder = f"{left.study.answers_folder}/{run.name}"
    files = [f"{folder}/{dataset}.parquet", f"{folder}/{dataset}.steps.parquet"]
    edit(left.folder(run) / RECORD, wall_seconds=7)
    assert Damage(left.study).all_answers() == dict.fromkeys(files, "is of an earlier training of the run")
    status = status_text(read_status(Decisions(left.study), [], now=NOW))
    assert "evaluations: 7 of 9 done" in status
    line = f"damaged: results/study/{files[0]} is of an earlier training of the run; the answers are made again"
    assert line in status.splitlines()
    for file in files:
        edit((left.root / file).with_suffix(".json"), inputs={})
    assert Damage(left.study).all_answers() == {}
    # Every evaluation of a run that this version trained names the training.
    edit(left.folder(run) / RECORD, **{FORM: NAMING})
    assert Damage(left.study).all_answers() == dict.fromkeys(files, NAMELESS)
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
    assert text[2].startswith(
        f"{run.name}  damaged      metrics.parquet is missing, and 1 more file is damaged, will be"
    )
    assert text[7] == "evaluations: 6 of 9 done, the base model's included"  # not base, nor those of the damaged run
    answers = f"results/study/{left.study.answers_folder}/base/{dataset}.parquet"
    assert text[8] == f"damaged: {answers} has 3 bytes instead of 7; the answers are made again"
