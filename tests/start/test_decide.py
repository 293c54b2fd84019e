"""What a start makes and keeps, by the files alone: no Snakemake, and nothing is written."""

from __future__ import annotations

import json
import shutil

import pytest

from reward_ablation.start.decide import CODE_CHANGED, PUT_BACK, Decisions, differences
from reward_ablation.start.status import read_status
from reward_ablation.study.run_folder import HIDDEN_RECORD, RECORD
from reward_ablation.system.files import write_json


def change(path, **changes):
    write_json({**json.loads(path.read_text()), **changes}, path)


def remove(left, pattern):
    for path in list(left.root.glob(pattern)):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def first(left, pattern):
    return min(left.root.glob(pattern))


def cut(left, pattern):
    first(left, pattern).write_text("cut")


def edit(pattern, **changes):
    """Change the records of this pattern."""

    def edited(left):
        for path in left.root.glob(pattern):
            change(path, **changes)

    return edited


def removed(*patterns):
    return lambda left: [remove(left, pattern) for pattern in patterns]


ONE_RUN = f"runs/a-*/seed0/{RECORD}"
SETS = {"training set", "evaluation set"}
#: What happened to the files; then the numbers of runs that are trained, of answers and of scores that are made; and
#: the inputs of runs that are made.
ROWS = {
    "nothing": (lambda left: None, 0, 0, 0, set()),
    "all is new": (lambda left: shutil.rmtree(left.root), 4, 5, 5, {"base model", *SETS}),
    "a record is broken": (lambda left: first(left, ONE_RUN).write_text("{"), 1, 1, 1, set()),
    "a run's model was deleted": (removed("runs/*/seed0/model"), 0, 0, 0, set()),
    "answers are gone": (removed("evaluation/*/a-*/seed0/*.parquet"), 0, 1, 1, set()),
    "answers are of other code": (edit("evaluation/*/base/*.json", code="old"), 0, 1, 1, set()),
    "problems changed": (lambda left: cut(left, "data/evaluation/*.parquet"), 0, 5, 5, {"training set"}),
    "the base model changed": (lambda left: cut(left, "models/*/model.json"), 0, 1, 1, set()),
    "the base model is gone": (removed("models"), 0, 0, 0, {"base model"}),
    "another base model is to be fetched": (
        lambda left: (edit("evaluation/*/base/*.json", models=["base-00000000"])(left), remove(left, "models")),
        *(0, 1, 1, {"base model"}),
    ),
    "the training set is gone": (removed("data/train-*"), 0, 0, 0, {"training set"}),
    "other code prepared the training set": (edit("data/*.json", code="old"), 0, 0, 0, {"training set"}),
    # With a new evaluation set the training set is compared anew.
    "other code prepared the evaluation set": (edit("data/evaluation/*.json", code="old"), 0, 0, 0, SETS),
    "the evaluation set is gone": (removed("data/evaluation/*.parquet"), 0, 0, 0, SETS),
    "the two sets were not compared": (edit("data/*.json", apart_from=[]), 0, 0, 0, {"training set"}),
    "an older version, without records": (removed("data/**/*.json", "scores/**/*.json"), 0, 0, 5, set()),
    "a record has other types": (edit(ONE_RUN, inputs=[], attempts={}, code="old"), 1, 1, 1, set()),
    "a record lists a name that is none": (edit(ONE_RUN, files={"a\0b": "0" * 64}), 1, 1, 1, set()),
    "a record of answers has other types": (edit("evaluation/*/base/*.json", inputs=[]), 0, 0, 0, set()),
    "scores are gone": (removed("scores/*/*"), 0, 0, 5, set()),
    "scores are of other code": (edit("scores/*/base/*.json", code="old"), 0, 0, 1, set()),
}


@pytest.mark.parametrize(("happened", "runs", "answers", "scores", "inputs"), ROWS.values(), ids=ROWS.keys())
def test_what_happened_to_files_decides_what_is_made(left, happened, runs, answers, scores, inputs):
    happened(left)
    before = {path: path.stat().st_mtime_ns for path in left.root.rglob("*")}
    found = Decisions(left.study)
    trained = [run for run in found.runs.values() if run.trains]
    assert (len(trained), len(found.evaluations), len(found.scorings)) == (runs, answers, scores)
    assert {name.partition(" test")[0] for name in map(found.inputs.get, found.inputs_to_make)} == inputs
    assert read_status(found, []).evaluated <= 5 - len(found.evaluations)
    assert {path: path.stat().st_mtime_ns for path in left.root.rglob("*")} == before


@pytest.mark.parametrize("broken", [True, False])
def test_a_record_of_other_code_is_put_back_on_request(left, broken):
    edit(f"runs/*/*/{RECORD}", code="old")(left)
    record = first(left, f"runs/*/seed0/{RECORD}")
    record.rename(record.with_name(HIDDEN_RECORD))
    if broken:
        record.write_text("{")
    name = "/".join(record.parts[-3:-1])
    kept = Decisions(left.study, code_counts=False).runs[name]
    assert (kept.trains, kept.has_job, kept.why) == (False, True, PUT_BACK)
    trained = Decisions(left.study).runs[name]
    assert (trained.trains, trained.why) == (True, "its run.json cannot be read" if broken else CODE_CHANGED)
    change(record.with_name(HIDDEN_RECORD), seed=99)
    assert Decisions(left.study, code_counts=False).runs[name].trains


def test_another_byte_in_a_record_and_a_copy_of_a_run_train_nothing(left):
    record = first(left, f"runs/*/seed0/{RECORD}")
    shutil.copy2(record, record.with_name(HIDDEN_RECORD))
    record.write_text(f"{record.read_text()}\n")
    shutil.copytree(record.parent, record.parent.with_name("seed0.bak"))
    again = Decisions(left.study)
    assert (again.damaged_answers, again.evaluations, again.scorings) == ({}, [], [])
    assert again.history.records.keys() == left.study.runs.keys()


def test_results_of_other_code_are_kept_on_request_and_damaged_ones_are_not(left):
    for pattern in ("evaluation/*/base/*.json", "data/**/*.json", "scores/**/*.json"):
        edit(pattern, code="old")(left)
    kept = Decisions(left.study, code_counts=False)
    assert (kept.evaluations, kept.scorings, kept.inputs_to_make) == ([], [], set())
    edit(f"runs/*/*/{RECORD}", code="old")(left)
    kept = Decisions(left.study, code_counts=False)
    assert not any(run.trains for run in kept.runs.values())
    assert {run.why.partition(":")[0].partition(";")[0] for run in kept.runs.values()} == {"training code changed"}
    cut(left, "runs/*/seed0/model/model.safetensors")
    assert sum(run.trains for run in Decisions(left.study, code_counts=False).runs.values()) == 1


SPEC = {
    "model": {"source": "hub", "id": "a/b", "revision": "7ae557604adf67be50417f59c2c2f167def9a775"},
    "data": {"source": {"source": "file", "path": "x.jsonl", "limit": None, "content": "0" * 64}, "overlap": "refuse"},
    "prompt": {"chat": True, "system": None},
    "components": {
        "format": {"function": "answer_format", "parameters": {"format": "hash"}, "placement": "all_tokens"},
        "mine": {"function": "mine.py:f", "parameters": {}, "placement": "all_tokens", "code": "0" * 16},
    },
    "training": {"max_steps": 100, "learning_rate": 1e-06},
    "lora": None,
    "gradients": {"every": 1},
    "gpus": 1,
    "weights": {"format": 0.33, "mine": 1},
}


def changed(path, value):
    *parents, last = path.split("/")
    spec = section = dict(SPEC)
    for key in parents:
        section[key] = dict(section[key])
        section = section[key]
    section[last] = value
    return spec


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("weights/format", 0.5, "format 0.33 → 0.5"),
        ("weights/new", 1, "new 0 → 1"),
        ("training/beta", 0.1, "beta (default) → 0.1"),
        ("components/format/parameters/format", "boxed", "component format: format hash → boxed"),
        ("components/format/placement", "last_token", "component format: placement all_tokens → last_token"),
        ("components/mine/code", "1" * 16, "component mine: its code changed"),
        ("components/new", {"function": "constant"}, "component new is new"),
        ("model/revision", "0" * 40, "model: revision 7ae55760 → 00000000"),
        ("data/source/limit", 10, "data: limit none → 10"),
        ("data/source/content", "1" * 64, "the training set changed"),
        ("prompt/system", "Think. " * 20, "prompt: system none → Think. Think. Think. Think. Think. Thin…"),
        ("lora", {"r": 16}, "lora none → {'r': 16}"),
    ],
)
def test_a_difference_in_words(path, value, words):
    assert differences(SPEC, changed(path, value)) == [words]


def test_weights_are_told_first():
    before, after = changed("training/beta", 0), changed("weights/mine", 0)
    assert differences(before, after) == ["mine 1 → 0", "beta 0 → (default)"]
    assert differences(SPEC, changed("gpus", 1.0)) == []
