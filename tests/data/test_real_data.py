"""GSM8K, MATH and MATH-500: copies beside the repository, or made-up rows with the same columns."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from public_data import data_file, rows
from reward_ablation.data.problems import PrepareSpec, prepare
from reward_ablation.data.sources import math
from reward_ablation.study.resolve import resolve
from reward_ablation.system.errors import StudyError


def known(source, split, file, **switches) -> PrepareSpec:
    return PrepareSpec.model_validate(
        {"source": {"source": source, "split": split, "path": str(data_file(file))}, **switches}
    )


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    """Folder with the two evaluation sets."""
    folder = tmp_path_factory.mktemp("evaluation")
    prepare(known("gsm8k", "test", "gsm8k_test.jsonl"), "gsm8k_test", folder / "gsm8k_test.parquet")
    prepare(known("math500", "test", "math500.jsonl"), "math500", folder / "math500.parquet")
    return folder


def test_gsm8k(prepared, tmp_path):
    evaluation = sorted(prepared.glob("*.parquet"))
    prepare(known("gsm8k", "train", "gsm8k_train.jsonl"), "train", tmp_path / "train.parquet", evaluation)
    train = pq.read_table(tmp_path / "train.parquet")
    test = pq.read_table(prepared / "gsm8k_test.parquet")
    assert (train.num_rows, test.num_rows) == (7473, 1319)
    golds = train["answer"].to_pylist() + test["answer"].to_pylist()
    assert all(str(int(gold)) == gold for gold in golds)  # no comma, no blank
    # counted in the source: 3 negative golds in train, 2 in test
    assert sum(gold.startswith("-") for gold in golds) == 5


def test_math_train(prepared, tmp_path):
    evaluation = sorted(prepared.glob("*.parquet"))
    # the one problem that is in the set twice
    with pytest.raises(StudyError, match=r"1 question occurs more than once, first math/train/959 \(as math/train/925"):
        prepare(known("math", "train", "math_train.jsonl"), "train", tmp_path / "train.parquet", evaluation)
    spec = known("math", "train", "math_train.jsonl", duplicates="drop")
    prepare(spec, "train", tmp_path / "train.parquet", evaluation)
    counts = json.loads((tmp_path / "train.json").read_text())
    # number_theory/7115 and 7117 have an empty box; no MATH-500 problem is in the 7500
    assert counts["rows"] == 7500 - 2 - 1
    assert (counts["dropped_no_gold"], counts["dropped_duplicates"], counts["dropped_overlap"]) == (2, 1, 0)
    # geometry/377 and 471 have no level
    assert pq.read_table(tmp_path / "train.parquet")["level"].null_count == 2


@pytest.mark.parametrize("file", ["math_train.jsonl", "math500.jsonl"])
def test_golds_found_in_solutions_are_the_published_ones(file):
    raw = rows(file)
    without = [{key: value for key, value in row.items() if key != "answer"} for row in raw]
    found = [row["answer"] or "" for row in math(without, "math", "train")]
    assert found == [row["answer"].strip() for row in raw]


def test_training_on_the_test_problems_that_are_not_evaluated(config, tmp_path):
    source = {"source": "math500", "split": "test", "path": str(data_file("math500.jsonl"))}
    config["data"] = {"train": source, "evaluation": {"math500": {**source, "limit": 30}}, "overlap": "drop"}
    study = resolve(config, "study.yaml", tmp_path)
    (dataset,) = study.datasets.values()
    prepare(PrepareSpec.model_validate_json(dataset), "math500", tmp_path / "math500.parquet")
    spec = PrepareSpec.model_validate_json(study.train_data_spec)
    prepare(spec, "train", tmp_path / "train.parquet", [tmp_path / "math500.parquet"])
    judged, trained = (pq.read_table(tmp_path / f"{name}.parquet")["id"].to_pylist() for name in ("math500", "train"))
    assert judged == [f"math500/test/{row}" for row in range(30)]
    assert trained == [f"math500/test/{row}" for row in range(30, 500)]
    assert study.warnings[0].startswith("data.train: training on test problems: math500 is a public benchmark")
