"""Which part of a study a preview shows, and its lock."""

import os
import subprocess
import sys
import time

import pytest

from locks import gets_free, is_free
from reward_ablation.start.preview import _largest_part

#: Stands for Snakemake. It ends once the file `end` is there.
SNAKEMAKE = """
import time
from pathlib import Path
Path("begun").touch()
while not Path("end").exists():
    time.sleep(0.05)
"""
RUNNING = """
import sys
from pathlib import Path
from reward_ablation.start.described import run_snakemake
from reward_ablation.system.locks import take
work = Path(sys.argv[1])
with take(work / ".lock") as lock:
    run_snakemake(work, work, [], None, lock)
"""


@pytest.mark.parametrize(
    ("evaluated", "first", "shown", "runs"),
    [
        ({"a": "1234", "b": "1"}, ["b"], "a", "1234"),  # b was added later, and is evaluated now
        ({"a": "12", "b": "34"}, ["b"], "b", "34"),  # the primary question's
        ({"a": "12", "b": "12", "c": "1"}, [], "abc", "1"),
    ],
)
def test_evaluation_sets_that_cost_few_runs_are_shown(evaluated, first, shown, runs):
    found = _largest_part({name: set(models) for name, models in evaluated.items()}, first)
    assert found == (set(shown), set(runs))


def test_a_snakemake_that_outlives_its_preview_holds_the_lock(tmp_path):
    (tmp_path / "snakemake.py").write_text(SNAKEMAKE)
    command = [sys.executable, "-c", RUNNING, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    with subprocess.Popen(command, cwd=tmp_path, env=environment) as process:
        while not (tmp_path / "begun").exists():
            assert process.poll() is None
            time.sleep(0.05)
        process.terminate()
        process.wait()
        assert not is_free(tmp_path / ".lock")
        (tmp_path / "end").touch()
        assert gets_free(tmp_path / ".lock")
