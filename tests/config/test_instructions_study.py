"""The task files of config/instructions.yaml equal the output of their script."""

import runpy
import shutil
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "config" / "instructions"


def test_tasks_are_what_the_script_makes(tmp_path):
    script = shutil.copy(FOLDER / "make_tasks.py", tmp_path)
    runpy.run_path(str(script), run_name="__main__")
    for name in ("train.jsonl", "test.jsonl"):
        assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes()
