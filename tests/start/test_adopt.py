"""Finished runs of other results folders: named by the plan, and taken over on request."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from contextlib import suppress

import pytest

from reward_ablation.start import adopt as module
from reward_ablation.start.adopt import adopt, elsewhere_lines, finished_in
from reward_ablation.start.decide import Decisions
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
