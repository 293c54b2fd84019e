"""A made-up run with the files that training and evaluation would have written."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pandas as pd
import pytest

from analysis.made_up import MadeUpStudy
from reward_ablation.system.files import sha256, write_json, write_parquet

STUDY = MadeUpStudy(steps=3, rollouts=8, problems=2, seeds=(0,))
#: Where a completion of the made-up run answers rightly, wrongly, in no format, and with a line break of Unicode's own.
COMPLETIONS = ["9 * 8 = 72\nFinal: 72", "Final: 71", "72", "it is\u2028so\nFinal: 72.0"]
COMPONENTS = ("correctness", "format", "length")


@pytest.fixture(scope="session")
def made_up_results(tmp_path_factory):
    results = tmp_path_factory.mktemp("made_up")
    STUDY.write(results)
    folder = results / STUDY.plan()["runs"][0]["folder"]
    rollouts = pd.read_parquet(folder / "rollouts.parquet")
    rollouts["completion"] = [COMPLETIONS[n % 4] for n in range(len(rollouts))]
    rollouts.loc[5, ["score_correctness", "total"]] = None  # a grader without a verdict
    write_parquet(rollouts, folder / "rollouts.parquet")
    for step in (1, 3):
        arrays = {f"{name}/layer.weight": np.full((2, 2), step + k) for k, name in enumerate(COMPONENTS)}
        np.savez(folder / f"gradients_step_{step}.npz", **arrays)
    problems = pd.DataFrame({"id": ["gsm8k:0", "gsm8k:1"], "question": ["9 x 8?", "How many?"], "answer": ["72", "8"]})
    write_parquet(problems, results / "data" / "train-00000000.parquet")
    record = json.loads((folder / "run.json").read_text())
    record["spec"]["prompt"] = {"chat": False, "template": "{question}\n", "system": None}
    record["inputs"]["problems"] = sha256(results / "data" / "train-00000000.parquet")
    record["files"] = {path.name: sha256(path) for path in folder.iterdir() if path.name != "run.json"}
    write_json(record, folder / "run.json")
    return results


@pytest.fixture
def run(made_up_results, tmp_path):
    """Folder of the run, whose problems are `gsm8k:0` and `gsm8k:1`, and which measured whole gradients at 1 and 3."""
    shutil.copytree(made_up_results, tmp_path, dirs_exist_ok=True)
    return tmp_path / STUDY.plan()["runs"][0]["folder"]


def change_record(run, **changes):
    """Change some keys of a run's record."""
    record = json.loads((run / "run.json").read_text())
    write_json(record | changes, run / "run.json")


@pytest.fixture
def results(run):
    """The results folder of the run."""
    return run.parents[2]
