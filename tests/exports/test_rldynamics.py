"""The loading snippets of rldynamics read the exported files, and get the run's numbers."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from reward_ablation.exports.__main__ import main
from reward_ablation.system.errors import StudyError

from . import as_published
from .conftest import change_record

METADATA = '{"model": "Qwen/Qwen2.5-3B-Instruct", "dataset": "math train"}'


def export(run, output):
    main(["rldynamics", "--run-dir", str(run), "--metadata", METADATA, "--output", str(output)])
    return output / "all_rewards.json"


def test_their_snippet_reads_the_trends(run, tmp_path):
    trends = as_published.trends(export(run, tmp_path / "exports"))
    rollouts = pd.read_parquet(run / "rollouts.parquet")
    by_step = rollouts.assign(characters=rollouts["completion"].str.len()).groupby("step")
    for name, column in (
        ("avg_correctness", "score_correctness"),
        ("avg_format", "score_format"),
        ("avg_actual_length", "characters"),
    ):
        assert trends[name] == pytest.approx(list(by_step[column].mean()))


def test_their_snippet_reads_the_gradients(run, tmp_path):
    export(run, tmp_path / "exports")
    assert sorted(path.name for path in (tmp_path / "exports").glob("*.npz")) == [
        "gradients_step_0.npz",  # theirs count from 0, ours from 1
        "gradients_step_2.npz",
    ]
    gradients = as_published.gradients(tmp_path / "exports" / "gradients_step_2.npz")
    assert {part: list(arrays) for part, arrays in gradients.items()} == {
        part: [f"{part}/layer.weight"] for part in as_published.PARTS
    }
    assert (gradients["length"]["length/layer.weight"] == np.full((2, 2), 5)).all()


def test_the_fields_are_theirs_and_the_values_the_runs(run, tmp_path):
    data = json.loads(export(run, tmp_path / "exports").read_text())
    assert list(data) == ["metadata", "steps"]
    assert data["metadata"] == {
        "created_at": None,
        "model": "Qwen/Qwen2.5-3B-Instruct",
        "dataset": "math train",
        "last_saved": None,
    }
    rollouts = pd.read_parquet(run / "rollouts.parquet")
    assert [step["step"] for step in data["steps"]] == [0, 1, 2]
    for step, (_, rows) in zip(data["steps"], rollouts.groupby("step"), strict=True):
        assert list(step) == ["step", "timestamp", "num_samples", "statistics", "samples"]
        assert step["timestamp"] is None
        assert step["num_samples"] == step["statistics"]["total_samples"] == len(rows)
        samples = pd.DataFrame(step["samples"])
        assert list(samples) == ["idx", "correctness", "format", "length_reward", "actual_length"]
        for theirs, ours in (("correctness", "correctness"), ("format", "format"), ("length_reward", "length")):
            np.testing.assert_array_equal(samples[theirs].astype(float), rows[f"score_{ours}"])
            assert step["statistics"][f"avg_{theirs}"] == pytest.approx(rows[f"score_{ours}"].mean())
        assert step["statistics"]["correct_count"] == (rows["score_correctness"] == 1).sum()
        assert step["statistics"]["format_valid_count"] == (rows["score_format"] > 0).sum()
        assert list(samples["actual_length"]) == list(rows["completion"].str.len())
    assert data["steps"][0]["samples"][5]["correctness"] is None


def test_slurms_clock_is_the_only_one_on_record(run, tmp_path):
    slurm = {"start": 1_800_000_000.0, "seconds_before": 10.0}
    change_record(run, attempts=[{"wall_seconds": 60.0, "slurm": slurm}, {"wall_seconds": 20.0, "slurm": None}])
    metadata = json.loads(export(run, tmp_path / "exports").read_text())["metadata"]
    assert (metadata["created_at"], metadata["last_saved"]) == ("2027-01-15 08:00:10", None)


def test_gradients_of_an_earlier_result_do_not_stay(run, tmp_path):
    export(run, tmp_path / "exports")
    record = json.loads((run / "run.json").read_text())
    change_record(run, files={name: digest for name, digest in record["files"].items() if "step_3" not in name})
    export(run, tmp_path / "exports")
    assert [path.name for path in (tmp_path / "exports").glob("*.npz")] == ["gradients_step_0.npz"]


@pytest.mark.parametrize("name", ["rollouts.parquet", "gradients_step_1.npz"])
def test_a_changed_file_is_refused(run, tmp_path, name):
    (run / name).write_bytes(b"no")
    with pytest.raises(StudyError, match=f"{name}: truncated or changed since it was written"):
        export(run, tmp_path / "exports")
    assert not (tmp_path / "exports" / "all_rewards.json").exists()
