"""Known data sets: their rows, and a hub on loopback, through the real command and the real `datasets`."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hub import Hub
from reward_ablation.data.sources import REPOSITORIES, humaneval, ifeval, mbpp
from reward_ablation.rewards.components.instructions import instructions
from reward_ablation.rewards.components.unit_tests import unit_tests
from reward_ablation.system.errors import StudyError

NO_COMMIT = "1" * 40


def parquet(rows: list[dict]) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), buffer)
    return buffer.getvalue()


def card(config: str, files: dict[str, str]) -> bytes:
    """The head of a data set's card, which tells `datasets` the files of each split."""
    lines = [f"  - {{split: {split}, path: {path}}}" for split, path in files.items()]
    return "\n".join(["---", "configs:", f"- config_name: {config}", "  data_files:", *lines, "---", ""]).encode()


GSM8K = {
    "README.md": card("main", {"train": "main/train-*", "test": "main/test-*"}),
    "main/train-00000-of-00001.parquet": parquet([{"question": "?", "answer": "#### 1"}]),
    "main/test-00000-of-00001.parquet": parquet(
        [{"question": f"What is {n} + 1,000?", "answer": f"#### {n + 1000:,}"} for n in range(1319)]
    ),
}


@pytest.fixture(scope="module")
def hub():
    with Hub() as hub:
        yield hub


#: Prepares each set of a list in one process, which imports `datasets` once; prints the errors by the set's name.
PREPARE = """
import json, sys
from reward_ablation.data.__main__ import main
from reward_ablation.system.errors import StudyError
folder, errors = sys.argv[1], {}
for name, spec in json.loads(sys.argv[2]).items():
    try:
        main(["--spec", json.dumps(spec), "--name", name, "--output", f"{folder}/{name}.parquet"])
    except StudyError as error:
        errors[name] = str(error)
print(json.dumps(errors))
"""


def prepare_from(hub: Hub, folder: Path, specs: dict[str, dict], **environment: str) -> dict[str, str]:
    """Prepare sets, with the client's cache in folder/home; the errors by name."""
    command = [sys.executable, "-c", PREPARE, str(folder), json.dumps(specs)]
    variables = hub.environment(folder / "home") | environment
    result = subprocess.run(command, env=variables, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


def test_without_a_network_the_cache_serves_the_pinned_commit_and_no_other(hub, prepared):
    table, first = pq.read_table(prepared / "gsm8k.parquet"), (prepared / "gsm8k.parquet").read_bytes()
    assert (table.num_rows, table["answer"][5].as_py()) == (1319, "1005")
    assert json.loads((prepared / "gsm8k.json").read_text())["source"]["repository"] == "openai/gsm8k"
    source = {"source": "gsm8k", "split": "test", "revision": hub.repositories["datasets", "openai/gsm8k"].commit}
    specs = {"gsm8k": {"source": source}, "other": {"source": source | {"revision": NO_COMMIT}}}
    errors = prepare_from(hub, prepared, specs, HF_HUB_OFFLINE="1")
    assert (prepared / "gsm8k.parquet").read_bytes() == first
    assert [*errors] == ["other"]
    assert "the hub cannot be reached and the cache holds another commit" in errors["other"]


def test_a_bad_download_is_refused_in_one_line(hub, prepared):
    errors = json.loads((prepared / "errors.json").read_text())
    assert [*errors] == ["no_commit", "truncated"]
    assert f"openai/gsm8k at {NO_COMMIT}: cannot be loaded: Revision '{NO_COMMIT}' doesn't exist" in errors["no_commit"]
    assert "Consistency check failed" in errors["truncated"]
    assert not any("\n" in line for line in errors.values())
    assert not [path for name in errors for path in prepared.glob(f"*{name}*")]


@pytest.fixture(scope="module")
def prepared(hub, tmp_path_factory):
    """Folder with GSM8K's test problems, and what was said of two bad downloads."""
    folder = tmp_path_factory.mktemp("prepared")
    commit = hub.add("datasets", REPOSITORIES["gsm8k"].name, GSM8K)
    gsm8k = {"source": "gsm8k", "split": "test", "revision": commit}
    specs = {"gsm8k": {"source": gsm8k}, "no_commit": {"source": gsm8k | {"revision": NO_COMMIT}}}
    file = "data/test-00000-of-00001.parquet"
    files = {"README.md": card("default", {"test": file}), file: parquet([{"problem": "x?"}])}
    commit = hub.add("datasets", REPOSITORIES["math"].name, files, faults={file: "truncated"})
    specs["truncated"] = {"source": {"source": "math", "split": "test", "revision": commit}}
    (folder / "errors.json").write_text(json.dumps(prepare_from(hub, folder, specs)))
    return folder


def test_rows_of_mbpp():
    tests = [f"assert add({x}) == {x + 7}" for x in range(3)]
    raw = {"task_id": 7, "text": "Write a function to add 7.", "code": "def add(x):\r\n  return x + 7"}
    raw |= {"test_list": tests, "test_setup_code": "import math", "challenge_test_list": ["assert add(-1) == 0"]}
    row, other = mbpp([raw, raw | {"task_id": 8, "test_setup_code": ""}], "train")
    assert row["id"] == "mbpp/train/7"
    assert row["question"] == f"Write a function to add 7.\n\nYour code should pass this test:\n\n{tests[0]}"
    assert (row["unit_tests"], other["unit_tests"]) == (["import math", *tests], tests)
    assert row["solution"] == raw["code"]


def test_rows_of_humaneval_and_their_unit_tests():
    raw = {"task_id": "HumanEval/7", "prompt": 'def add_7(x):\n    """Add 7."""\n', "entry_point": "add_7"}
    raw |= {"canonical_solution": "    return x + 7\n", "test": "def check(candidate):\n    assert candidate(1) == 8\n"}
    [row] = humaneval([raw], "test")
    assert (row["id"], row["code_before"], row["question"]) == ("humaneval/test/7", raw["prompt"], raw["prompt"])
    programs = [row["solution"], "    return 0\n", f"```python\n{row['code_before']}{row['solution']}```"]
    columns = {name: [row[name]] * len(programs) for name in ("code_before", "unit_tests")}
    assert unit_tests(programs, prefix_column="code_before", **columns) == [1.0, 0.0, 1.0]


IFEVAL = {
    "key": 1007,
    "prompt": "Write 7 words without a comma.",
    "instruction_id_list": ["punctuation:no_comma", "length_constraints:number_words"],
    # `datasets` adds the keywords of all rows to each
    "kwargs": [{"num_words": None, "relation": None}, {"relation": "at least", "num_words": 7}],
}


def test_rows_of_ifeval_and_their_instructions():
    [row] = ifeval([IFEVAL], "train")
    assert row["id"] == "ifeval/train/1007"
    assert row["instructions"] == [
        {"id": "punctuation:no_comma", "kwargs": {}},
        {"id": "length_constraints:number_words", "kwargs": {"relation": "at least", "num_words": 7}},
    ]
    text = "one two three four five six seven"
    assert instructions([text, "few"], instructions=[row["instructions"]] * 2) == [1.0, 0.0]


@pytest.mark.parametrize(
    ("problems", "row", "message"),
    [
        (mbpp, {"task_id": 1, "text": "x", "test_list": []}, "mbpp row 0: test_list must be a list of at least one"),
        (humaneval, {"prompt": "def f():"}, "humaneval row 0: no column 'test'"),
        (ifeval, IFEVAL | {"kwargs": [{}]}, "ifeval row 0: kwargs must hold one object for each of the 2 inst"),
        (ifeval, IFEVAL | {"kwargs": ["", ""]}, "ifeval row 0: kwargs must hold one object for each"),
    ],
)
def test_rows_of_another_data_set_are_refused(problems, row, message):
    with pytest.raises(StudyError, match=message):
        problems([row], "train")
