"""Files that a study does not need are deleted, and nothing else is; damaged files are found."""

import errno
import json
import os
import shutil
import time
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa
import pytest

from reward_ablation.scores.requests import recording
from reward_ablation.start import files
from reward_ablation.start.files import Leftover, delete, prune_text, remove, unneeded, verify
from reward_ablation.study.resolve import resolve
from reward_ablation.study.run_folder import HIDDEN_RECORD, PRUNED, RECORD, UNFINISHED
from reward_ablation.study.standing import number_begun
from reward_ablation.system.files import write_parquet
from reward_ablation.system.locks import take

OLD = time.time() - 86400
SFT = {"data": {"source": "word_problems", "count": 5, "split": "train", "seed": 3}}


def write(path, text="x"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def write_study(study):
    """Write the files of a finished study, only those that it needs."""
    root, runs, models = study.results, study.runs, ("base", *study.runs)
    kept = {run: [f"{name}.steps" for name in study.datasets if run in study.keeping_runs] for run in models}
    evaluated = [f"{model}/{name}" for model in models for name in (*study.datasets, *kept[model])]
    scored = [name.removeprefix(f"{study.scores_folder}/").removesuffix(".parquet") for name in study.scores]
    tables = [study.problems_file, *study.evaluation_files, *study.scores]
    tables += [f"{study.answers_folder}/{name}.parquet" for name in evaluated]
    files = ["figures/all.pdf", "tables/runs.csv"]
    of_a_run = ["run.json", ".run.json", "diverged.json", ".lock", "rollouts.parquet", "model/model.safetensors"]
    of_a_run += ["model-step5/model.safetensors"] * bool(study.keeping_runs)
    files += [f"runs/{run}/{file}" for run in runs for file in of_a_run]
    files += [f"{study.answers_folder}/{model}/{UNFINISHED}/part.parquet" for model in models]
    files += [f"logs/train/{run}.log" for run in runs] + [f"logs/evaluate/{model}.log" for model in models]
    files += [f"logs/prepare/evaluation/{name}.log" for name in study.datasets]
    jobs = [("evaluate", evaluated), ("score", scored)]
    files += [f"logs/{job}/{name}.log" for job, names in jobs for name in names]
    files += [f"benchmarks/{job}/{name}.tsv" for job, names in jobs for name in names]
    write(root / "study.json", json.dumps({"name": study.config.name}))
    write(root / study.model_file, json.dumps({"files": {"config.json": {}}}))
    write((root / study.model_file).with_name("config.json"))
    if study.demonstrations_file:
        tables.append(study.demonstrations_file)
        write(root / study.fetched_file, json.dumps({"files": {"config.json": {}}}))
        write((root / study.fetched_file).with_name("config.json"))
        write((root / study.model_file).parent.with_suffix(".json"))
    for file in [*files, *tables, *(f"{name.removesuffix('.parquet')}.json" for name in tables)]:
        write(root / file)
    return root


def files_of(root):
    """All files but for the list of deleted runs."""
    return {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()} - {PRUNED}


def delete_all(leftovers, root):
    """Why each of them is still there; None where it is gone."""
    return {leftover.path: delete(leftover, root) for leftover in leftovers}


@pytest.fixture
def root(config, tmp_path):
    config["keep_models"] = 5
    config["evaluation"]["metrics"] = {"flat": {"function": "constant"}}
    return write_study(resolve(config, "s", tmp_path))


def test_a_study_needs_all_of_its_own(config, tmp_path, root):
    study = resolve(config, "s", tmp_path)
    assert unneeded(study) == unneeded(replace(study, diverged=dict.fromkeys(study.runs, 1))) == []
    arms = config["arms"]["arms"]
    config["arms"]["arms"] = {"first": arms["a"], "second": arms["b"]}
    assert unneeded(resolve(config, "s", tmp_path)) == []
    config["data"]["evaluation"]["other"] = config["data"]["evaluation"].pop("test")
    assert unneeded(resolve(config, "s", tmp_path)) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda config: config["arms"]["arms"]["b"]["weights"].update(format=0.25),
        lambda config: config.update(seeds=[1]),
        lambda config: config["evaluation"].update(max_new_tokens=7),
        lambda config: config["data"]["evaluation"]["test"].update(count=11),
        lambda config: config["model"].update(seed=7),
        lambda config: config.pop("keep_models"),
        lambda config: config["evaluation"].pop("metrics"),
        lambda config: config.update(sft=SFT),
    ],
)
def test_what_is_left_after_an_edit_is_what_the_study_then_needs(config, tmp_path, root, change):
    change(config)
    study = resolve(config, "s", tmp_path)
    write_study(study)
    alone = write_study(resolve(config, "s", tmp_path / "alone"))
    assert files_of(root) > files_of(alone)
    assert set(delete_all(unneeded(study), root).values()) == {None}
    assert files_of(root) == files_of(alone)
    assert all(any(folder.iterdir()) for folder in root.rglob("*") if folder.is_dir())
    assert unneeded(study) == []


def test_a_supervised_start_is_needed_as_long_as_the_study_has_it_and_costly(config, tmp_path):
    """It has no record of its hours."""
    study = resolve(config | {"sft": SFT}, "s", tmp_path)
    root = write_study(study)
    assert unneeded(study) == []
    fetched = (root / study.fetched_file).parent
    start = write(root / study.model_file, json.dumps({"source": "sft", "files": {"config.json": {}}})).parent
    unfinished = start.with_name(f".{start.name}.sft")
    without = {leftover.path for leftover in unneeded(resolve(config, "s", tmp_path))}
    assert {start, start.with_suffix(".json"), root / study.demonstrations_file} <= without
    study = resolve(config | {"sft": SFT | {"seed": 1}}, "s", tmp_path)
    write(unfinished / ".work" / "checkpoint-5" / "model.safetensors")
    told = []
    remove(study, unneeded(study), told.append)
    dear = [leftover.path for leftover in unneeded(study) if leftover.path.parent.name == "models"]
    assert dear == [unfinished, start, start.with_suffix(".json")]
    with take(unfinished / ".lock"):
        assert "is at work there" in delete(Leftover(unfinished, ""), root)
    assert told[-1].endswith(", unknown hours; --delete --costly deletes them, too")
    remove(study, unneeded(study), told.append, costly=True)
    assert not start.exists()
    assert not unfinished.exists()
    assert fetched.exists()


def test_what_the_workflow_did_not_make_is_left_alone(config, tmp_path, root):
    outside = write(tmp_path / "outside" / "seed0" / "run.json")
    names = ["notes.txt", "runs/notes.txt", "runs/a-0123456/seed0/run.json", "runs/a-01234567/best/run.json"]
    names += ["evaluation/mine/a-01234567/seed0/test-01234567.parquet", "data/train-01234567.csv"]
    names += ["models/base-01234567/adapter.safetensors", "other/runs/a-01234567/seed0/run.json"]
    mine = [write(root / name) for name in names]
    (root / "runs" / "a-89abcdef").symlink_to(outside.parents[1])
    (root / "runs" / "a-01234567" / "seed7").symlink_to(outside.parent)
    assert unneeded(resolve(config, "s", tmp_path)) == []
    assert all(path.is_file() for path in mine)


@pytest.mark.parametrize("kind", ["runs", "models"])
def test_nothing_behind_a_link_is_touched(config, tmp_path, root, kind):
    """Somebody has moved a part of the results to another disk."""
    os.rename(root / kind, tmp_path / "elsewhere")
    (root / kind).symlink_to(tmp_path / "elsewhere")
    config["arms"]["arms"]["b"]["weights"]["format"] = 0.25
    config["model"]["seed"] = 7
    config["data"]["train"]["count"] = 11
    before = files_of(tmp_path / "elsewhere")
    delete_all(unneeded(resolve(config, "s", tmp_path)), root)
    assert files_of(tmp_path / "elsewhere") == before


def test_a_run_with_a_file_of_the_users_and_one_in_training_are_kept_and_told(config, tmp_path, root):
    first, second = sorted((root / "runs").glob("b-*/seed?"))
    write(first / "notes.txt")
    config["arms"]["arms"].pop("b")
    with take(second / ".lock"):
        kept = delete_all(unneeded(resolve(config, "s", tmp_path)), root)
    assert kept.pop(first) == "holds notes.txt, which is not the workflow's"
    assert "is at work there" in kept.pop(second)
    assert set(kept.values()) == {None}
    assert all((run / "run.json").is_file() for run in (first, second))


def test_a_deleted_run_stays_in_the_count_whatever_fails(config, tmp_path, root, monkeypatch):
    run = write(root / "runs" / "gone-01234567" / "seed0" / "run.json").parent
    begun = number_begun(root / "runs")
    [found] = unneeded(resolve(config, "s", tmp_path))

    def busy(path):
        raise OSError(errno.EBUSY, "Device or resource busy")

    with monkeypatch.context() as patched:
        patched.setattr(files.shutil, "rmtree", busy)
        assert delete(found, root) == "cannot be deleted whole: Device or resource busy"
    assert number_begun(root / "runs") == begun
    write(run / "run.json")
    (root / PRUNED).unlink()
    (root / PRUNED).symlink_to("/dev/full")
    assert f"add the line {run.parent.name}/seed0" in delete(found, root)
    assert not run.exists()


def test_a_preview_goes_and_what_it_links_to_stays(config, tmp_path, root):
    study = resolve(config, "s", tmp_path)
    delete_all(unneeded(study), root)
    before = files_of(root)
    write(root / "preview" / "tables" / "summary.md")
    (root / "preview" / "runs").symlink_to("../runs", target_is_directory=True)
    [found] = unneeded(study)
    assert found.path == root / "preview"
    with take(root / "preview" / ".lock"):
        assert "is at work there" in delete(found, root)
    assert delete(found, root) is None
    assert files_of(root) == before


@pytest.mark.parametrize("calls", [1, 2, 4, 9, 18])
def test_a_half_that_is_left_does_not_look_whole_and_goes_the_next_time(config, tmp_path, root, monkeypatch, calls):
    """Pruning is killed before the n-th removal: no folder keeps a record whose files are gone."""
    config["arms"]["arms"].pop("b")
    config["model"]["seed"] = 7
    study = resolve(config, "s", tmp_path)
    write_study(study)
    done, begun = 0, number_begun(root / "runs")

    def killed_in_time(call):
        def wrapped(*arguments, **keywords):
            nonlocal done
            done += 1
            if done > calls:
                raise KeyboardInterrupt
            return call(*arguments, **keywords)

        return wrapped

    with monkeypatch.context() as patched:
        for name in ("unlink", "rmdir", "replace"):
            patched.setattr(files.os, name, killed_in_time(getattr(os, name)))
        found = [each for each in unneeded(study) if each.path.is_dir() and each.path.name != UNFINISHED]
        with pytest.raises(KeyboardInterrupt):
            delete_all(found, root)
    assert number_begun(root / "runs") == begun
    for run in (root / "runs").glob("*/seed*"):
        if (run / "run.json").is_file() or (run / ".run.json").is_file():
            assert (run / "rollouts.parquet").is_file()
            assert (run / "model" / "model.safetensors").is_file()
    for model in (root / "models").glob("base-*/model.json"):
        assert model.with_name("config.json").is_file()
    for path in [each for old in root.rglob(".*.old") for each in (*old.iterdir(), old)]:
        os.utime(path, (OLD, OLD))
    assert set(delete_all(unneeded(study), root).values()) <= {None}
    assert files_of(root) == files_of(write_study(resolve(config, "s", tmp_path / "alone")))


def test_temporary_files_are_left_over_when_nobody_writes_to_them(config, tmp_path, root):
    study = resolve(config, "s", tmp_path)
    run = root / "runs" / next(iter(study.runs))
    old = [write(run / ".run.json.123.tmp"), write(root / "tables" / ".runs.csv.77.tmp")]
    (root / "models" / ".base-01234567.fetching").mkdir()
    old.append(root / "models" / ".base-01234567.fetching")
    for path in old:
        os.utime(path, (OLD, OLD))
    write(root / "tables" / ".runs.csv.78.tmp")  # a moment ago
    os.utime(write(run / ".work" / ".part.tmp"), (OLD, OLD))  # training's own
    os.utime(write(root / "another" / "tables" / ".runs.csv.9.tmp"), (OLD, OLD))
    fetched = write(root / "models" / ".base-76543210.fetching" / "model.safetensors")  # and its folder long ago
    os.utime(fetched.parent, (OLD, OLD))
    assert {leftover.path for leftover in unneeded(study)} == set(old)
    os.utime(fetched, (OLD, OLD))
    os.utime(write(root / "models" / ".base-76543210.fetch.tmp"), (OLD, OLD))  # the lock of a fetch that takes hours
    assert {leftover.path for leftover in unneeded(study)} == {*old, fetched.parent}
    assert Leftover(fetched.parent, "").size() == Leftover(fetched, "").size() == fetched.stat().st_size
    assert Leftover(root / "renamed meanwhile", "").size() == 0


def test_counts_of_requests_stay_as_long_as_the_study_needs_the_scores(config, tmp_path, root):
    study = resolve(config, "s", tmp_path)
    for scores in (root / study.scores[0], root / "scores/01234567-01234567/base/test-01234567.parquet"):
        with suppress(RuntimeError), recording(scores, "code") as requests:
            write(requests / "1.json")
            raise RuntimeError
        for path in (requests / "1.json", requests, requests.parent / ".lock", requests.parent):
            os.utime(path, (OLD, OLD))
    assert [leftover.path for leftover in unneeded(study)] == [requests.parent]


def test_the_list_has_a_line_for_each_arm_and_kind(config, tmp_path, root):
    unfinished = next((root / "runs").glob("b-*/seed0"))
    for name in ("run.json", ".run.json"):
        (unfinished / name).unlink()
    attempt = {"wall_seconds": 7200, "hardware": {"gpus": ["H100", "H100"]}}
    write(unfinished / ".work" / "attempts.json", json.dumps([attempt]))
    config["arms"]["arms"].pop("b")
    study = resolve(config, "s", tmp_path)
    lines = prune_text(study, unneeded(study)).splitlines()
    assert lines[0] == "study study does not need:"
    runs = sorted(line.partition(": ")[2] for line in lines if "results/study/runs/b-" in line)
    assert runs == ["finished run of another config, unknown hours", "unfinished run of another config, 4 GPU hours"]
    assert lines[-2].endswith(" in all; `reward-ablation prune --delete` deletes it")
    assert lines[-1].startswith("but for 2 runs of more than 1 hour, ")
    assert lines[-1].endswith(", unknown hours; --delete --costly deletes them, too")


def priced(root, hours):
    """The run `b`, seed 0, with this record; the other runs cost nothing."""
    priced = next((root / "runs").glob("b-*/seed0"))
    for run in (root / "runs").glob("*/seed*"):
        for name in ("run.json", ".run.json"):
            write(run / name, json.dumps(hours if run == priced else {"gpu_hours": 0.0, "cpu_hours": 0.1}))
    return priced


@pytest.mark.parametrize(
    ("record", "costly"),
    [
        ({"gpu_hours": 0.9, "cpu_hours": 9.0}, False),
        ({"gpu_hours": 0.0, "cpu_hours": 1.5}, True),  # trained without a GPU
        ({"gpu_hours": "much"}, True),  # what it cost is not known
    ],
)
def test_what_cost_more_than_an_hour_is_kept_with_all_of_its_run(config, tmp_path, root, record, costly):
    run = priced(root, record)
    name = f"{run.parent.name}/{run.name}"
    config["arms"]["arms"].pop("b")
    study = resolve(config, "s", tmp_path)
    of_run = {file for file in files_of(root) if name in file}
    others = {file for file in files_of(root) if "/b-" not in file}
    told = []
    remove(study, unneeded(study), told.append)
    locks = {file for file in files_of(root) if file.endswith(".lock")}
    assert files_of(root) - locks == (others | of_run if costly else others) - locks
    assert bool(unneeded(study)) == costly == told[-1].startswith("kept: 1 run of more than 1 hour, ")
    remove(study, unneeded(study), told.append, costly=True)
    assert files_of(root) == others


def test_answers_that_cost_much_are_kept_with_their_record(config, tmp_path, root):
    priced(root, {"gpu_hours": 0.0, "cpu_hours": 0.1})
    [answers] = root.glob("evaluation/*/base/test-????????.parquet")
    answers.with_suffix(".json").write_text('{"gpu_hours": 3.0}')
    config["evaluation"]["max_new_tokens"] = 7
    study = resolve(config, "s", tmp_path)
    remove(study, unneeded(study), lambda line: None)
    assert {leftover.path for leftover in unneeded(study)} == {answers, answers.with_suffix(".json")}


def verified(left):
    """Lines and number of damaged files, progress aside."""
    lines = []
    return lines, verify(left.study, lines.append, lambda line: None)


def flip(path):
    """Change one byte of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut(path):
    path.write_bytes(path.read_bytes()[:1])


AGAIN = "trains the run again (1.2 GPU hours)"


@pytest.mark.parametrize(
    ("harm", "file", "words"),
    [
        (flip, "models/*/config.json", "has other bytes: its SHA-256 starts with "),
        (cut, "models/*/model.json", "cannot be read; delete results/study/models/base-"),
        (flip, "data/train-*.parquet", "; delete the file: the data are prepared again once a job needs them"),
        (flip, "runs/a-*/seed0/rollouts.parquet", f"; delete the file, and the next start {AGAIN}"),
        (cut, "runs/a-*/seed0/rollouts.parquet", f"has 1 byte instead of 40; the next start {AGAIN}"),
        (lambda path: path.unlink(), "runs/a-*/seed0/metrics.parquet", f"is missing; the next start {AGAIN}"),
        (cut, "runs/a-*/seed0/run.json", "cannot be read; the next start trains the run again"),
        (flip, "evaluation/*/base/test-*.parquet", "; delete the file, and the next start makes the answers again"),
    ],
)
def test_a_damaged_file_is_one_line(left, harm, file, words):
    [path] = left.root.glob(file)
    harm(path)
    lines, damaged = verified(left)
    assert lines[0].startswith(f"damaged: results/study/{path.relative_to(left.root)} ")
    assert words in lines[0]
    assert damaged == len(lines) - 1 == 1 + (path.name == "run.json")  # with its answers, which name another record
    assert lines[-1].endswith(f": {damaged} damaged")


def test_answers_without_a_digest_are_read(left):
    """As older versions left them: the pages of a Parquet file have checksums."""
    [dataset] = left.study.datasets
    path = left.root / left.study.answers_folder / "base" / f"{dataset}.parquet"
    path.with_suffix(".json").unlink()
    write_parquet(pa.table({"answer": ["as it was written"] * 50}), path)
    assert verified(left)[1] == 0
    content = bytearray(path.read_bytes())
    content[len(content) // 4] ^= 1
    path.write_bytes(content)
    assert " is no whole Parquet file (" in verified(left)[0][0]


def test_a_record_is_compared_with_its_copy(left):
    folder = left.folder(left.runs[0])
    shutil.copy2(folder / RECORD, folder / HIDDEN_RECORD)
    assert verified(left)[1] == 0
    (folder / RECORD).write_text(f"{(folder / RECORD).read_text()}\n")
    begin = f"damaged: results/study/runs/{left.runs[0].name}/run.json differs from its copy .run.json; "
    assert verified(left)[0][0].startswith(begin)
    cut(folder / RECORD)
    [line, _], damaged = verified(left)
    assert (damaged, line.partition("; ")[2]) == (1, "the next start writes the record again")


def test_a_deleted_model_with_answers_and_a_run_in_training_are_not_damaged(left):
    shutil.rmtree(left.folder(left.runs[0]) / "model")
    folder = left.folder(left.runs[1])
    cut(folder / "rollouts.parquet")
    with take(folder / ".lock"):
        lines, damaged = verified(left)
    assert damaged == 0
    assert lines[1:] == [f"runs not verified, because they are being trained: {left.runs[1].name}"]


def test_whole_results_pass_and_progress_is_told(left, monkeypatch):
    monkeypatch.setattr(files, "PROGRESS_SECONDS", -1.0)
    lines, told = [], []
    assert verify(left.study, lines.append, told.append) == 0
    # The model's file, two sets of data, seven files of each run, five files of answers.
    assert lines == ["verified 36 files, 1.0 kB: none is damaged"]
    assert told[-1] == "verify: 1.0 kB of 1.0 kB read, 0 files damaged"
