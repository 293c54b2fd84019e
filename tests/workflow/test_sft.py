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
    result = study.snakemake("--until", "sft")
    assert result.returncode == 0, result.stdout + result.stderr
    (start,) = [path for path in study.results.glob("models/*/model.json") if "inputs" in json.loads(path.read_text())]

    # It is found wherever its demonstrations lie, and whatever the times.
    (tmp_path / "demos.jsonl").rename(tmp_path / "moved.jsonl")
    study.config["sft"]["data"]["path"] = str(tmp_path / "moved.jsonl")
    for records in ("kept", "lost"):
        if records == "lost":
            shutil.rmtree(tmp_path / ".snakemake")
            for number, path in enumerate(sorted(study.results.rglob("*"))):
                os.utime(path, (number, number))
        planned = study.planned()
        assert planned["train"] == 4
        assert not {"sft", "prepare_sft", "fetch"} & planned.keys()

    study.config["data"]["evaluation"]["more"] = {"source": "word_problems", "count": 5, "seed": 1, "split": "test"}
    planned = study.planned()
    assert planned["prepare_sft"] == 1  # held apart from the new set
    assert "sft" not in planned

    made = start.parent.with_suffix(".json")
    code = made.read_text()
    made.write_text('{"code": "other"}')
    assert study.planned()["sft"] == 1
    made.write_text(code)

    record = json.loads(start.read_text())
    start.write_text(json.dumps({**record, "inputs": {**record["inputs"], "problems": "other"}}))
    assert study.planned()["sft"] == 1
    start.write_text(json.dumps(record))

    study.config["sft"]["seed"] = 1
    assert study.planned()["sft"] == 1
