"""`reward-ablation verify` reads every recorded file: it finds damage of any kind, and whole results pass."""

import shutil

import pyarrow as pa
import pytest

from reward_ablation.start import verify
from reward_ablation.start.verify import Verification
from reward_ablation.study.resolve import resolve
from reward_ablation.study.run_folder import HIDDEN_RECORD, RECORD
from reward_ablation.system.files import sha256, write_json, write_parquet
from reward_ablation.system.locks import take

from .left_behind import LeftBehind, attempt


@pytest.fixture
def left(config, tmp_path):
    """A study of two runs on two GPUs, with its model, data, runs and answers."""
    config["launch"] = {"gpus": 2}
    config["seeds"] = [0]
    left = LeftBehind(resolve(config, "study.yaml", tmp_path))
    [dataset] = left.study.datasets
    model = (left.root / left.study.model_file).parent
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    entry = {"size": 2, "sha256": sha256(model / "config.json")}
    write_json({"files": {"config.json": entry}}, model / "model.json")
    for name in (left.study.problems_file, f"data/evaluation/{dataset}.parquet"):
        path = left.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"problems")
        write_json({"sha256": sha256(path)}, path.with_suffix(".json"))
    for run in left.runs:
        left.finish_whole(run, attempt(1800), gpu_hours=1.25)
        left.answer(run.name, dataset)
    left.answer("base", dataset)
    return left


def verified(left):
    """Lines and number of damaged files, progress aside."""
    verification = Verification(left.study)
    lines = []
    verification.run(lines.append, lambda line: None)
    return lines, verification.damaged


def flip(path):
    """Change one byte of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut(path):
    path.write_bytes(path.read_bytes()[:1])


def test_whole_results_pass(left):
    lines, damaged = verified(left)
    assert damaged == 0
    # The model's file, two sets of data, seven files of each run, three files of answers.
    assert lines == ["verified 20 files, 519 B: none is damaged"]


AGAIN = "trains the run again (1.2 GPU hours)"


@pytest.mark.parametrize(
    ("harm", "file", "words"),
    [
        (flip, "models/*/config.json", "has other bytes: its SHA-256 starts with "),
        (cut, "models/*/config.json", "has 1 byte instead of 2; delete results/study/models/base-"),
        (cut, "models/*/model.json", "cannot be read; delete results/study/models/base-"),
        (flip, "data/train-*.parquet", "; delete the file: the data are prepared again once a job needs them"),
        (flip, "data/evaluation/test-*.parquet", "has other bytes: "),
        (flip, "runs/a-*/seed0/rollouts.parquet", f"; delete the file, and the next start {AGAIN}"),
        (flip, "runs/a-*/seed0/model/model.safetensors", f"; delete the file, and the next start {AGAIN}"),
        (cut, "runs/a-*/seed0/rollouts.parquet", f"has 1 byte instead of 40; the next start {AGAIN}"),
        (lambda path: path.unlink(), "runs/a-*/seed0/metrics.parquet", f"is missing; the next start {AGAIN}"),
        (cut, "runs/a-*/seed0/run.json", "cannot be read; the next start trains the run again"),
        (flip, "evaluation/*/base/test-*.parquet", "; delete the file, and the next start makes the answers again"),
        (cut, "evaluation/*/base/test-*.parquet", "has 1 byte instead of 7; the next start makes the answers again"),
    ],
)
def test_a_damaged_file_is_one_line(left, harm, file, words):
    [path] = left.root.glob(file)
    harm(path)
    [line, last], damaged = verified(left)
    assert line.startswith(f"damaged: results/study/{path.relative_to(left.root)} ")
    assert words in line
    assert damaged == 1
    assert last.endswith(": 1 damaged")


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
    [line, _], damaged = verified(left)
    assert damaged == 1
    assert " is no whole Parquet file (" in line


def test_an_unreadable_record_with_a_copy_is_written_again(left):
    folder = left.folder(left.runs[0])
    shutil.copy2(folder / RECORD, folder / HIDDEN_RECORD)
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


def test_progress_is_told(left, monkeypatch):
    monkeypatch.setattr(verify, "PROGRESS_SECONDS", -1.0)
    told = []
    Verification(left.study).run(lambda line: None, told.append)
    assert (len(told), told[0], told[-1]) == (
        20,
        "verify: 0 B of 519 B read, 0 files damaged",
        "verify: 512 B of 519 B read, 0 files damaged",
    )
