import math

import pytest

from analysis.made_up import MadeUpStudy
from reward_ablation.analysis.study_file import read_study
from reward_ablation.cost.clocks import evaluation_hours
from reward_ablation.system.files import write_json


@pytest.fixture
def written(tmp_path):
    """A study with two data sets and kept models: four records a run, each of half an hour on one GPU."""
    study = read_study(MadeUpStudy(datasets={"one": 3, "two": 3}, keep_models=2).write(tmp_path))
    run = study.runs[0]
    files = [
        of(dataset, run.name) for dataset in ("one", "two") for of in (study.answers_file, study.kept_answers_file)
    ]
    records = [tmp_path / file.replace(".parquet", ".json") for file in files]
    for path in records:
        write_json({"wall_seconds": 1800.0, "gpu_hours": 0.5, "cpu_hours": 2.0}, path)
    return study, run, tmp_path, records


def test_hours_are_summed_over_data_sets_and_models(written):
    study, run, root, _ = written
    hours = {"evaluation_wall_hours": 2.0, "evaluation_gpu_hours": 2.0, "evaluation_cpu_hours": 8.0}
    assert evaluation_hours(study, run, root) == hours


@pytest.mark.parametrize("content", [None, "{", "[]", '{"wall_seconds": 1}'])
def test_without_a_record_they_are_not_known(written, content):
    study, run, root, records = written
    records[2].unlink()
    if content is not None:
        records[2].write_text(content)
    assert all(math.isnan(value) for value in evaluation_hours(study, run, root).values())
