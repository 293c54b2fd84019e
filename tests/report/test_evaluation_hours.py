import json
import math

import pytest

from analysis.made_up import MadeUpStudy
from reward_ablation.analysis.study_file import read_study
from reward_ablation.report.cost.tables import evaluation_hours, scoring_hours
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


@pytest.mark.parametrize(("lost", "hours"), [(False, 2.0), (True, math.nan)])
def test_hours_of_scoring_are_by_snakemakes_clock(written, lost, hours):
    """Four files of answers, each scored in half an hour on one GPU."""
    _, _, root, _ = written
    content = json.loads((root / "study.json").read_text())
    of_run = {name: f"scores/{{run}}/{name}-01234567.parquet" for name in ("one", "two")}
    write_json({**content, "scores": of_run, "scoring_gpus": 1}, root / "study.json")
    study = read_study(root / "study.json")
    run = study.runs[0]
    folder = root / "benchmarks" / "score" / run.name
    folder.mkdir(parents=True)
    for kind in ("", ".steps"):
        for name in ("one", "two"):
            (folder / f"{name}-01234567{kind}.tsv").write_text("s\th:m:s\tmax_rss\n1800.0\t0:30:00\t12.5\n")
    if lost:
        (folder / "two-01234567.steps.tsv").unlink()
    found = scoring_hours(study, run, root)
    assert found == pytest.approx({"scoring_wall_hours": hours, "scoring_gpu_hours": hours}, nan_ok=True)


def test_a_study_without_metrics_of_its_own_scores_nothing(written):
    study, run, root, _ = written
    assert scoring_hours(study, run, root) == {"scoring_wall_hours": 0.0, "scoring_gpu_hours": 0.0}
