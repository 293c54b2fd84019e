"""The supervised start in the real DAG: only the inputs of the start make it again."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from .conftest import TINY, Study, with_inputs_of

pytestmark = pytest.mark.slow

#: Two steps on eight demonstrations of the user's.
SFT = {
    "data": {"source": "file", "path": "demos.jsonl"},
    "completion": ["{answer}"],
    "training": {"max_steps": 2, "per_device_train_batch_size": 4, "save_strategy": "no"},
}


def test_only_the_inputs_of_a_start_make_it_again(finished, tmp_path):
    rows = [{"question": f"{number} + 1?", "answer": str(number + 1)} for number in range(8)]
    (tmp_path / "demos.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    study = with_inputs_of(finished, Study(tmp_path, {**TINY, "sft": SFT}))
    study.make("--until", "sft")
    (start,) = [path for path in study.results.glob("models/*/model.json") if "inputs" in json.loads(path.read_text())]

    # It is found wherever its demonstrations lie, and whatever the times.
    (tmp_path / "demos.jsonl").rename(tmp_path / "moved.jsonl")
    study.set("sft.data.path", str(tmp_path / "moved.jsonl"))
    shutil.rmtree(tmp_path / ".snakemake")
    for number, path in enumerate(sorted(study.results.rglob("*"))):
        os.utime(path, (number, number))
    planned = study.planned()
    assert planned["train"] == 4
    assert not {"sft", "prepare_sft", "fetch"} & planned.keys()

    study.set("data.evaluation.more", {"source": "word_problems", "count": 5, "seed": 1, "split": "test"})
    planned = study.planned()
    assert planned["prepare_sft"] == 1  # held apart from the new set
    assert "sft" not in planned

    record = json.loads(start.read_text())
    for path, changed in (
        (start.parent.with_suffix(".json"), {"code": "other"}),
        (start, {**record, "inputs": {**record["inputs"], "problems": "other"}}),
    ):
        before = path.read_text()
        path.write_text(json.dumps(changed))
        assert study.planned()["sft"] == 1
        path.write_text(before)
    study.set("sft.seed", 1)
    assert study.planned()["sft"] == 1
