"""MBPP, HumanEval and IFEval in the hub's layouts, from a hub on loopback through the real command."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from hub import Hub
from reward_ablation.config.sections.data import FURTHER_COLUMNS, REVISIONS, SPLITS, HubData
from reward_ablation.data.prepared import read_prepared
from reward_ablation.data.sources import REPOSITORIES, humaneval, ifeval, mbpp
from reward_ablation.rewards.columns import json_columns
from reward_ablation.rewards.components.instructions import instructions
from reward_ablation.system.errors import StudyError

from .test_hub_data import parquet, prepare_from


def card(config: str, files: dict[str, str]) -> bytes:
    """The head of a data set's card, which tells `datasets` the files of each split."""
    lines = [f"  - {{split: {split}, path: {path}}}" for split, path in files.items()]
    return "\n".join(["---", "configs:", f"- config_name: {config}", "  data_files:", *lines, "---", ""]).encode()


def mbpp_row(number: int) -> dict:
    return {
        "task_id": number,
        "text": f"Write a function to add {number}.",
        "code": f"def add(x):\r\n  return x + {number}",
        "test_list": [f"assert add({x}) == {x + number}" for x in range(3)],
        "test_setup_code": "import math" if number % 7 == 0 else "",
        "challenge_test_list": ["assert add(-1) == 0"],
    }


def humaneval_row(number: int) -> dict:
    return {
        "task_id": f"HumanEval/{number}",
        "prompt": f'def add_{number}(x):\n    """Add {number}."""\n',
        "canonical_solution": f"    return x + {number}\n",
        "test": f"def check(candidate):\n    assert candidate(1) == {number + 1}\n",
        "entry_point": f"add_{number}",
    }


def ifeval_row(number: int) -> dict:
    """A row as in the file on the hub; `datasets` adds the keywords of all rows to it."""
    return {
        "key": 1000 + number,
        "prompt": f"Write {number} words without a comma.",
        "instruction_id_list": ["punctuation:no_comma", "length_constraints:number_words"],
        "kwargs": [{}, {"relation": "at least", "num_words": number}],
    }


MBPP_FILES = {split: f"full/{split}-00000-of-00001.parquet" for split in SPLITS["mbpp"]}
HUMANEVAL_FILE = "openai_humaneval/test-00000-of-00001.parquet"
REPOSITORY_FILES = {
    "mbpp": {"README.md": card("full", MBPP_FILES)}
    | {path: parquet([mbpp_row(n) for n in range(REPOSITORIES["mbpp"].rows[s])]) for s, path in MBPP_FILES.items()},
    "humaneval": {
        "README.md": card("openai_humaneval", {"test": HUMANEVAL_FILE}),
        HUMANEVAL_FILE: parquet([humaneval_row(n) for n in range(164)]),
    },
    "ifeval": {"ifeval_input_data.jsonl": "\n".join(json.dumps(ifeval_row(n)) for n in range(541)).encode()},
}


@pytest.mark.parametrize(
    ("source", "split", "rows", "of_json"),
    [
        ("mbpp", "train", 374, ("unit_tests",)),
        ("humaneval", "test", 164, ()),
        ("ifeval", "train", 541, ("instructions",)),
    ],
)
def test_a_data_set_at_a_commit(tmp_path, source, split, rows, of_json):
    with Hub() as hub:
        commit = hub.add("datasets", REPOSITORIES[source].name, REPOSITORY_FILES[source])
        config = {"source": source, "split": split, "revision": commit}
        result = prepare_from(hub, tmp_path, config, spec={"golds": False})
    assert result.returncode == 0, result.stderr
    path = tmp_path / "set.parquet"
    assert json.loads(path.with_suffix(".json").read_text())["rows"] == rows
    assert json_columns(pq.read_schema(path)) == of_json
    frame = read_prepared(path)
    assert frame["answer"].isna().all()
    row = frame.iloc[7].to_dict()
    if source == "mbpp":
        tests = mbpp_row(7)["test_list"]
        assert row["id"] == f"mbpp/{split}/7"
        assert row["question"] == f"Write a function to add 7.\n\nYour code should pass this test:\n\n{tests[0]}"
        assert row["unit_tests"] == ["import math", *tests]
        assert frame["unit_tests"][8] == mbpp_row(8)["test_list"]
        assert row["solution"] == mbpp_row(7)["code"]
    elif source == "humaneval":
        assert row["id"] == "humaneval/test/7"
        assert row["code_before"] == humaneval_row(7)["prompt"]
        assert row["question"] == row["code_before"].strip()
        exec(row["code_before"] + row["solution"] + row["unit_tests"])  # the tests call the function of the row
        with pytest.raises(AssertionError):
            exec(row["code_before"] + "    return 0\n" + row["unit_tests"])
    else:
        assert row["id"] == "ifeval/train/1007"
        assert row["instructions"] == [
            {"id": "punctuation:no_comma", "kwargs": {}},
            {"id": "length_constraints:number_words", "kwargs": {"relation": "at least", "num_words": 7}},
        ]
        text = "one two three four five six seven"
        assert instructions([text, "few"], instructions=[row["instructions"]] * 2) == [1.0, 0.0]


@pytest.mark.parametrize("source", sorted(FURTHER_COLUMNS))
def test_each_known_source_has_a_commit_and_splits_of_known_sizes(source):
    assert HubData(source=source, split=SPLITS[source][0]).revision == REVISIONS[source]
    assert tuple(REPOSITORIES[source].rows) == SPLITS[source]


@pytest.mark.parametrize(
    ("problems", "row", "message"),
    [
        (mbpp, {"task_id": 1, "text": "x", "test_list": []}, "mbpp row 0: test_list must be a list of at least one"),
        (mbpp, {"task_id": 1, "text": "x", "test_list": "assert 1"}, "mbpp row 0: test_list must be a list"),
        (mbpp, {"text": "x", "test_list": ["assert 1"]}, "mbpp row 0: no column 'task_id'"),
        (humaneval, {"prompt": "def f():"}, "humaneval row 0: no column 'test'"),
        (ifeval, ifeval_row(1) | {"kwargs": [{}]}, "ifeval row 0: kwargs must hold one object for each of the 2 inst"),
        (ifeval, ifeval_row(1) | {"kwargs": ["", ""]}, "ifeval row 0: kwargs must hold one object for each"),
        (ifeval, ifeval_row(1) | {"kwargs": None}, "ifeval row 0: kwargs must be a list"),
    ],
)
def test_rows_of_another_data_set_are_refused(problems, row, message):
    with pytest.raises(StudyError, match=message):
        problems([row], "train")


def test_a_copy_must_be_whole(tmp_path):
    path = Path(tmp_path / "some.jsonl")
    path.write_text("\n".join(json.dumps(humaneval_row(n)) for n in range(100)))
    with Hub() as hub:
        result = prepare_from(hub, tmp_path, {"source": "humaneval", "split": "test", "path": str(path)})
    assert result.returncode == 1
    assert "100 rows, but humaneval test has 164" in result.stderr
