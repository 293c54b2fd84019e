"""One job makes all missing answers of a run, and goes on after an interrupted job."""

import errno
import json
import os
import shutil
import threading

import pandas as pd
import pytest

from reward_ablation.config.sections.evaluation import Evaluation
from reward_ablation.evaluation import __main__ as command
from reward_ablation.evaluation import evaluate as module
from reward_ablation.evaluation import generate, stored
from reward_ablation.study.answers_record import FORM, NAMING
from reward_ablation.study.core_digest import deciding_digest
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import sha256, write_json
from reward_ablation.system.locks import take

from .conftest import record_run

SPEC = {
    "evaluation": Evaluation(answer_format="hash", samples=1, max_new_tokens=8, batch_size=8).model_dump(),
    "prompt": {"system": None, "template": "{question}\n", "chat": False},
    "device": "cpu",
}


class Interrupted(Exception):
    """As by a signal, between the answers of two models."""


@pytest.fixture
def run(model_folder, tmp_path):
    """Folder of a run that kept two models, equal to its final one."""
    folder = tmp_path / "runs" / "arm" / "seed0"
    for name in ("model", "model-step1", "model-step2"):
        shutil.copytree(model_folder, folder / name)
    record_run(folder)
    return folder


@pytest.fixture
def sets(problems, tmp_path):
    """Two prepared sets of problems."""
    paths = [tmp_path / "first-1.parquet", tmp_path / "second-2.parquet"]
    for path, rows in zip(paths, (problems[:4], problems[3:]), strict=True):
        rows.reset_index(drop=True).to_parquet(path)
    return paths


@pytest.fixture
def evaluate(run, tmp_path, monkeypatch):
    """Evaluate the run. Returns what was generated as (model, set); `interrupted_after` raises after so many."""

    def start(*sets, interrupted_after=None, options=("--kept",)):
        generated = []
        answers = module.Evaluator.answers

        def watched(evaluator, folder, name):
            if len(generated) == interrupted_after:
                raise Interrupted
            generated.append((folder.name, name))
            return answers(evaluator, folder, name)

        with monkeypatch.context() as patch:
            patch.setattr(module.Evaluator, "answers", watched)
            words = ["--spec", json.dumps(SPEC), "--run", run, "--answers", tmp_path / "answers", *options]
            try:
                command.main(list(map(str, [*words, "--problems", *sets])))
            except Interrupted:
                assert interrupted_after is not None
        return generated

    return start


def contents(folder):
    """Bytes of all answers in place, by name."""
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.parquet"))}


def test_each_model_is_loaded_once_and_asked_for_all_sets_before_the_next(evaluate, sets, tmp_path, monkeypatch):
    models, loaded, load = ["model", "model-step1", "model-step2"], [], generate.load_model
    monkeypatch.setattr(
        generate, "load_model", lambda folder, *others: loaded.append(folder.name) or load(folder, *others)
    )
    assert evaluate(*sets) == [(model, name) for model in models for name in ("first-1", "second-2")]
    assert loaded == models
    stems = ("first-1", "first-1.steps", "second-2", "second-2.steps")
    files = [f"{stem}.{ending}" for stem in stems for ending in ("json", "parquet")]
    assert sorted(path.name for path in (tmp_path / "answers").iterdir()) == files


def test_an_interrupted_evaluation_makes_nothing_twice(evaluate, sets, tmp_path):
    """The outputs of a failed job are gone: Snakemake removes them, and older ones too if it has no backup."""
    first = evaluate(*sets, interrupted_after=3)
    assert len(first) == 3
    assert contents(tmp_path / "answers") == {}
    second = evaluate(*sets)
    assert sorted(first + second) == sorted(set(first + second))
    assert len(second) == 3
    made = contents(tmp_path / "answers")
    shutil.rmtree(tmp_path / "answers")
    evaluate(*sets)
    assert contents(tmp_path / "answers") == made


def test_finished_answers_outlive_the_failure_of_a_job_that_adds_others(evaluate, sets, tmp_path):
    first, _ = sets
    evaluate(first)
    before = contents(tmp_path / "answers")
    assert evaluate(first) == []
    evaluate(*sets, interrupted_after=0)
    for path in (tmp_path / "answers").glob("*.parquet"):
        path.unlink()  # as Snakemake does without a backup
    assert {name for _, name in evaluate(*sets)} == {"second-2"}
    after = contents(tmp_path / "answers")
    assert {name: after[name] for name in before} == before


def test_the_record_names_the_code_that_began(evaluate, sets, tmp_path, monkeypatch):
    """A long evaluation may outlive an update of the code on disk, which a process digests when it first asks."""
    generate_answers = module.Evaluator.answers

    def edited(*given):
        monkeypatch.setattr(stored, "deciding_digest", lambda name: "edited meanwhile")
        return generate_answers(*given)

    monkeypatch.setattr(module.Evaluator, "answers", edited)
    evaluate(sets[0])
    records = [json.loads(path.read_text()) for path in (tmp_path / "answers").glob("*.json")]
    assert {record["code"] for record in records} == {deciding_digest("evaluation")}


@pytest.mark.parametrize("change", ["run", "problems", "answers", "code"])
def test_answers_of_other_models_problems_or_code_and_damaged_ones_are_made_again(
    evaluate, run, sets, tmp_path, change
):
    first, _ = sets
    evaluate(first)
    answers = tmp_path / "answers" / "first-1.parquet"
    if change == "run":
        record_run(run, wall_hours=2)
    elif change == "problems":
        pd.read_parquet(first)[:2].to_parquet(first)
    elif change == "answers":
        answers.write_bytes(answers.read_bytes()[:-1])
    else:
        for path in (tmp_path / "answers").glob("*.json"):
            write_json({**json.loads(path.read_text()), "code": "of before"}, path)
    models = ["model"] if change == "answers" else ["model", "model-step1", "model-step2"]
    again = evaluate(first, options=("--kept", "--any-code"))
    assert again == ([] if change in ("problems", "code") else [(model, "first-1") for model in models])
    if change in ("problems", "code"):
        assert evaluate(first) == [(model, "first-1") for model in models]


def test_answers_of_an_older_version_stay_until_the_run_is_trained_by_this_one(evaluate, run, sets, tmp_path):
    """Records of an older version do not name the run. Times of files say nothing."""
    first, _ = sets
    evaluate(first, options=())
    path = tmp_path / "answers" / "first-1.json"
    old = json.loads(path.read_text())
    del old["inputs"]["run"]
    write_json(old, path)
    assert evaluate(first, options=("--any-code",)) == []
    path.unlink()
    later = (tmp_path / "answers" / "first-1.parquet").stat().st_mtime + 10
    os.utime(run / "run.json", (later, later))
    assert evaluate(first, options=()) == []
    record_run(run, **{FORM: NAMING})
    assert evaluate(first, options=()) == [("model", "first-1")]
    assert evaluate(first, options=()) == []


def test_scores_of_answers_that_are_replaced_are_removed(evaluate, sets, tmp_path):
    """Scores that exist are of the answers that exist: of all metrics, and only of the answers that are replaced."""
    first, second = sets
    options = ("--answers", tmp_path / "evaluation/00000000/arm/seed0", "--scores", tmp_path / "scores")
    folders = ["00000000-11111111/arm/seed0", "00000000-22222222/arm/seed0"]
    folders += ["33333333-11111111/arm/seed0", "00000000-11111111/base"]
    evaluate(first, second, options=options)
    for folder in folders:
        (tmp_path / "scores" / folder).mkdir(parents=True)
        for path in sets:
            (tmp_path / "scores" / folder / path.name).touch()
    assert evaluate(first, second, options=options) == []
    assert all((tmp_path / "scores" / folder / path.name).is_file() for folder in folders for path in sets)
    pd.read_parquet(first)[:2].to_parquet(first)
    assert evaluate(first, second, options=options) == [("model", "first-1")]
    there = [[(tmp_path / "scores" / folder / path.name).is_file() for folder in folders] for path in sets]
    assert there == [[False, False, True, True], [True] * 4]


def test_a_failed_write_makes_no_old_answers_current(evaluate, sets, monkeypatch):
    """Unfinished answers to other problems are replaced; the disk is full in between."""
    first, _ = sets
    evaluate(first, interrupted_after=2)
    pd.read_parquet(first)[:2].to_parquet(first)

    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(stored, "write_parquet", full)
        with pytest.raises(StudyError, match="No space left"):
            evaluate(first)
    assert evaluate(first) == [(model, "first-1") for model in ("model", "model-step1", "model-step2")]


@pytest.mark.parametrize("name", ["write_parquet", "write_json"])
def test_answers_of_a_killed_evaluation_count_only_with_their_record(model_folder, sets, tmp_path, monkeypatch, name):
    """The base model's answers name no run: without a record they would be those of an older version, and stay."""
    words = ["--spec", json.dumps(SPEC), "--model", model_folder, "--answers", tmp_path / "answers"]
    words = [*map(str, words), "--problems", str(sets[0])]
    write = getattr(stored, name)

    def killed(*arguments):
        write(*arguments)
        raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(stored, name, killed)
        with pytest.raises(Interrupted):
            command.main(words)
    pd.read_parquet(sets[0])[:2].to_parquet(sets[0])
    command.main(words)
    answers = pd.read_parquet(tmp_path / "answers" / "first-1.parquet")
    assert set(answers["problem_id"]) == set(pd.read_parquet(sets[0])["id"])
    record = json.loads((tmp_path / "answers" / "first-1.json").read_text())
    assert (record["answers"], record["sha256"]) == (4, sha256(tmp_path / "answers" / "first-1.parquet"))


def test_an_evaluation_ends_well_where_the_lock_s_file_cannot_be_removed(evaluate, sets, tmp_path, monkeypatch):
    """As on NFS: a file that is removed while it is open keeps its folder from being removed until it is closed."""
    remove = os.rmdir

    def rmdir(path, **options):
        if os.fspath(path).endswith(".unfinished"):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        remove(path, **options)

    monkeypatch.setattr(os, "rmdir", rmdir)
    assert evaluate(sets[0], options=()) == [("model", "first-1")]
    assert (tmp_path / "answers" / ".unfinished").is_dir()
    assert evaluate(sets[0], options=()) == []


def test_a_second_evaluation_waits_for_the_first(evaluate, sets, tmp_path):
    """The job of a killed Snakemake may still be at work on its node."""
    lock = take(tmp_path / "answers" / ".unfinished" / ".lock")
    made = []
    waiting = threading.Thread(target=lambda: made.extend(evaluate(sets[0], options=())))
    waiting.start()
    waiting.join(timeout=2)
    assert (waiting.is_alive(), made) == (True, [])
    lock.release()
    waiting.join(timeout=120)
    assert made == [("model", "first-1")]
