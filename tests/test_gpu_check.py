"""The check of a machine's GPUs: layouts that it leaves out, its verdict on wrong numbers, and its runs on a CPU."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "benchmarks" / "gpu_check.py"
PAGE = ROOT / "docs" / "gpu.md"


@pytest.fixture
def check(monkeypatch):
    """The benchmark's module."""
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    import gpu_check

    return gpu_check


def test_layouts_that_cannot_run_are_named(check, monkeypatch, tmp_path):
    def reasons(gpus: int) -> dict:
        return {layout.name: check.left_out(layout, gpus, "cuda") for layout in check.LAYOUTS}

    monkeypatch.setattr(check, "find_spec", lambda name: True)
    assert reasons(1)["plain"] is None
    assert reasons(1)["DDP × 2"] == reasons(1)["server"] == "needs 2 GPUs, here are 1"
    assert reasons(2)["DDP × 2"] is reasons(2)["server"] is None
    monkeypatch.setattr(check, "find_spec", lambda name: None)
    monkeypatch.setattr(check, "DEEPSPEED", tmp_path / "none")
    assert reasons(8)["colocate"] == reasons(8)["server"] == "vLLM is not installed"
    assert reasons(8)["ZeRO-2 × 2"] == "DeepSpeed is not installed"
    assert reasons(8)["plain"] is reasons(8)["DDP × 2"] is None


def test_a_wrong_number_is_told(check):
    near = {"products": 1e-5, "norm": 1e-6, "processes": 1}
    assert check.right(near)
    assert not check.right({**near, "norm": 0.01})
    assert not check.right({**near, "products": 0.01})
    assert check.right({**near, "products": 0.01, "processes": 2})  # of sums
    assert not check.right({"error": "out of memory"})


def test_parts_of_a_step_add_up(check, tmp_path):
    seconds = {"step": 10, "preparation": 6, "generation": 4, "synchronisation": 0.5, "scoring": 1, "update": 2}
    events = [{"step": 1, "part": "step", "seconds": 99, "peak": 5}]  # the first step is left out
    events += [{"step": 2, "part": part, "seconds": number, "peak": 7} for part, number in seconds.items()]
    pd.DataFrame(events).to_json(tmp_path / "times", orient="records", lines=True)
    parts = check.by_part(tmp_path / "times")
    expected = {"whole step": 12, "other preparation": 0.5, "gradients": 4, "peak": 7}
    assert {name: parts[name] for name in expected} == expected
    with pytest.raises(RuntimeError, match="trained without DeepSpeed"):
        check.check_deepspeed(tmp_path / "times")


def test_without_a_gpu_nothing_is_run_and_the_page_stays(check, tmp_path, monkeypatch, capsys):
    if check.torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    before = PAGE.read_text()
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "--write", "--json", str(tmp_path / "result.json")])
    check.main()
    assert capsys.readouterr().out == "no GPU here: nothing was run\n"
    assert PAGE.read_text() == before
    assert f"-->\n{check.table(json.loads((tmp_path / 'result.json').read_text()))}\n<!--" in before


@pytest.mark.slow
@pytest.mark.long
def test_a_layout_on_a_cpu(check, tmp_path):
    if find_spec("deepspeed") is None and not check.DEEPSPEED.is_dir():
        pytest.skip("DeepSpeed is not installed; `make test` does")
    layout, output = "ZeRO-3 × 2", tmp_path / "result.json"
    command = [sys.executable, str(SCRIPT), "--device", "cpu", "--shape", "tiny", "--layouts", layout]
    result = subprocess.run([*command, "--json", str(output)], capture_output=True, text=True, timeout=500)
    assert result.returncode == 0, result.stdout + result.stderr[-2000:]
    found = json.loads(output.read_text())["shapes"]["tiny"]
    assert check.right(found["numbers"][layout])
    own, bare = found["times"][layout]["own"], found["times"][layout]["bare"]
    assert 0 < own["generation"] < own["whole step"]
    assert 0 < bare["gradients"] < bare["whole step"]
    assert f"| {layout} | as on the CPU |" in result.stdout
