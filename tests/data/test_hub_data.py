"""Known data sets from a hub on loopback, through the real command and the real `datasets`."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hub import Hub

NO_COMMIT = "1" * 40
GSM8K_CARD = b"""---
configs:
- config_name: main
  data_files:
  - {split: train, path: main/train-*}
  - {split: test, path: main/test-*}
---
"""


def parquet(rows: list[dict]) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), buffer)
    return buffer.getvalue()


GSM8K = {
    "README.md": GSM8K_CARD,
    "main/train-00000-of-00001.parquet": parquet([{"question": "?", "answer": "#### 1"}]),
    "main/test-00000-of-00001.parquet": parquet(
        [{"question": f"What is {n} + 1,000?", "answer": f"#### {n + 1000:,}"} for n in range(1319)]
    ),
}
MATH500 = {
    "test.jsonl": b"\n".join(
        json.dumps({"problem": f"x = {n}?", "solution": f"\\boxed{{{n}}}", "answer": f"{n}", "level": 1}).encode()
        for n in range(500)
    )
}


@pytest.fixture(scope="module")
def hub():
    with Hub() as hub:
        yield hub


def prepare_from(
    hub: Hub, root: Path, source: dict, spec: dict | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the stage as the workflow does, into root/set.parquet, with the client's cache in root/home."""
    text = json.dumps({"source": source, **(spec or {})})
    command = [sys.executable, "-m", "reward_ablation.data", "--spec", text, "--name", "set"]
    command += ["--output", root / "set.parquet"]
    return subprocess.run(command, env=hub.environment(root / "home") | environment, capture_output=True, text=True)


def test_gsm8k_at_a_pinned_commit_and_only_at_that_one(hub, tmp_path):
    commit = hub.add("datasets", "openai/gsm8k", GSM8K)
    source = {"source": "gsm8k", "split": "test", "revision": commit}
    result = prepare_from(hub, tmp_path, source)
    assert result.returncode == 0, result.stderr
    table = pq.read_table(tmp_path / "set.parquet")
    assert table.num_rows == 1319
    assert table["answer"][5].as_py() == "1005"
    first = (tmp_path / "set.parquet").read_bytes()
    assert json.loads((tmp_path / "set.json").read_text())["source"]["repository"] == "openai/gsm8k"

    # Without a network the cache serves the same commit, and no other.
    assert prepare_from(hub, tmp_path, source, HF_HUB_OFFLINE="1").returncode == 0
    assert (tmp_path / "set.parquet").read_bytes() == first
    result = prepare_from(hub, tmp_path, source | {"revision": NO_COMMIT}, HF_HUB_OFFLINE="1")
    assert result.returncode == 1
    assert "the hub cannot be reached and the cache holds another commit" in result.stderr


def test_math500(hub, tmp_path):
    commit = hub.add("datasets", "HuggingFaceH4/MATH-500", MATH500)
    result = prepare_from(hub, tmp_path, {"source": "math500", "split": "test", "revision": commit})
    assert result.returncode == 0, result.stderr
    assert pq.read_table(tmp_path / "set.parquet").num_rows == 500


@pytest.mark.parametrize(
    ("source", "faults", "message"),
    [
        ({"split": "test", "revision": NO_COMMIT}, {}, f"Revision '{NO_COMMIT}' doesn't exist"),
        ({"split": "test"}, {"main/test-00000-of-00001.parquet": "truncated"}, "Consistency check failed"),
    ],
)
def test_a_bad_download_is_refused_in_one_line(hub, tmp_path, source, faults, message):
    commit = hub.add("datasets", "openai/gsm8k", GSM8K, faults=faults)
    result = prepare_from(hub, tmp_path, {"source": "gsm8k", "revision": commit} | source)
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1].startswith("error: openai/gsm8k")
    assert message in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr
    assert not list(tmp_path.glob("*set*"))
