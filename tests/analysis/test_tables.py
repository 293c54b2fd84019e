import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from analysis.made_up import SCHEMAS, MadeUpStudy, made_tables, write_tables
from reward_ablation.analysis.gradients.tables import LATER_COLUMNS
from reward_ablation.analysis.registry import OF_TIMES
from reward_ablation.analysis.study_file import read_study
from reward_ablation.report.cost.columns import COST
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import sha256, write_parquet

#: Tables with a Parquet file.
IN_PARQUET = set(SCHEMAS) - OF_TIMES


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("study")
    MadeUpStudy(datasets={"gsm8k_test": 200}).write(root)
    return write_tables(root)


def change(path: Path, **values) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_every_table_has_its_columns_in_both_formats(tables):
    for name, schema in SCHEMAS.items():
        assert list(pd.read_csv(tables / f"{name}.csv").columns) == schema.names
        if name in OF_TIMES:
            continue
        stored = pq.read_schema(tables / f"{name}.parquet")
        assert stored.names == [column for column in schema.names if column not in COST]
        assert all(stored.field(column).type == schema.field(column).type for column in stored.names)


def test_runs_of_earlier_versions_are_tabulated(tmp_path):
    """The gradients of some of a study's runs lack columns that later versions write."""
    MadeUpStudy(steps=3, rollouts=4, problems=2).write(tmp_path)
    for path in sorted(tmp_path.glob("runs/*/*/gradients.parquet"))[:1]:
        write_parquet(pd.read_parquet(path).drop(columns=LATER_COLUMNS), path)
        record = json.loads((path.parent / "run.json").read_text())
        change(path.parent / "run.json", files={**record["files"], path.name: sha256(path)})
    table = made_tables(tmp_path, "gradients")["similarity_by_step"]
    unknown = table[table["folding_error"].isna()]
    assert len(unknown.groupby(["arm", "seed"])) == 1
    assert table["cosine"].notna().all()


def test_rows_are_as_many_as_the_study_has(tables):
    rows = {name: pq.read_metadata(tables / f"{name}.parquet").num_rows for name in IN_PARQUET}
    assert rows == {
        "runs": 4 * 2,
        "provenance": 10,  # two digests of code, four packages, machine, CPUs, GPUs, processes
        "evaluation_by_run": (4 * 2 + 1) * (9 + 12),  # runs, base model; metrics, sampled also pass@1, pass@2, maj@2
        "evaluation_by_arm": 5 * (9 + 12),
        "paired_differences": 3 * (9 + 12),
        "component_effects": 3 * (9 + 12),
        "rewards_by_step": 4 * 2 * 6 * 6,  # steps, three components with total, tokens, truncated
        "similarity_by_step": 4 * 2 * 6 * 6 * 2 * 3,  # steps, layers with "all", definitions, pairs
        "similarity_by_arm": 4 * 6 * 2 * 3 * 5,  # layers, definitions, pairs, the cosine and its parts
        "signals_by_step": 4 * 2 * 6 * (2 + 3 * 6 + 2),  # of all components, of each of three, lengths by correctness
        "component_correlations": 4 * 3,
        "differences_by_level": 3 * 3,  # primary contrasts, levels
        "examples": 4 * 5,  # two first questions, one gained and one lost; the base model's answer and one of each arm
        **dict.fromkeys(("learning_curves", "claims", "method_weights", "methods_offline", "alignment"), 0),
        "advantage_size": 4,
        "reward_hacking": 4 + 6,  # for each arm its lengths, and a fall or gap for each component that it trains on
    }


def test_tables_are_the_same_bytes_each_time(tables, tmp_path):
    MadeUpStudy(datasets={"gsm8k_test": 200}).write(tmp_path)
    for run in tmp_path.glob("runs/*/*/run.json"):
        change(run, wall_seconds=99.0, gpu_hours=1.0)  # a second study takes another time
    again = write_tables(tmp_path)
    for name in IN_PARQUET:
        assert (again / f"{name}.parquet").read_bytes() == (tables / f"{name}.parquet").read_bytes(), name
    assert set(pd.read_csv(again / "runs.csv")["wall_seconds"]) == {99.0}
    for name in IN_PARQUET - {"runs"}:
        assert (again / f"{name}.csv").read_bytes() == (tables / f"{name}.csv").read_bytes(), name


def test_arms_with_one_spec_share_their_runs(tmp_path):
    MadeUpStudy(arms={"first": {"a": 1.0, "b": 0.0}, "second": {"a": 0.0, "b": 1.0}}).write(tmp_path)
    plan = json.loads((tmp_path / "study.json").read_text())
    folders = {run["seed"]: run for run in plan["runs"] if run["arm"] == "first"}
    twins = [folders[run["seed"]] | {"arm": run["arm"]} for run in plan["runs"]]
    (tmp_path / "study.json").write_text(json.dumps(plan | {"runs": twins}))
    tables = made_tables(tmp_path, "evaluation", "cost")
    assert (tables["paired_differences"]["estimate"] == 0).all()
    assert len(tables["runs"]) == 4


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"seed": 5}, "run.seed is 5 there and 1 in the study"),
        ({"spec": {}}, 'run.spec.training.learning_rate is "(absent)" there and 1e-05 in the study'),
    ],
)
def test_a_run_of_another_study_is_refused(tmp_path, changes, told):
    study = MadeUpStudy(arms={"first": {"a": 1.0}})
    study.write(tmp_path)
    run = tmp_path / "runs/first-00000000/seed1"
    change(run / "run.json", **({"spec": study.spec("first") | {"training": {}}} if "spec" in changes else changes))
    with pytest.raises(StudyError) as error:
        made_tables(tmp_path, "provenance")
    assert str(error.value).startswith(f"{run}: trained under another config: {told}; delete")
    assert "\n" not in str(error.value)


ANSWERS = "evaluation/first-00000000/seed0/gsm8k_test.parquet"
BASE = "evaluation/base/gsm8k_test.parquet"


def without_mode(path: Path) -> None:
    write_parquet(pd.read_parquet(path).query("mode == 'greedy'"), path)


def without_last(path: Path) -> None:
    write_parquet(pd.read_parquet(path).iloc[:-1], path)


@pytest.mark.parametrize(
    ("file", "damage", "told"),
    [
        ("runs/first-00000000/seed1/run.json", Path.unlink, "not finished"),
        (ANSWERS, Path.unlink, "no such file"),
        (ANSWERS, without_mode, "answers other questions than the study.s first model did"),
        (BASE, without_last, "has 1 sampled answers to some questions and"),
    ],
)
def test_a_file_that_is_missing_or_lacks_rows_is_named(tmp_path, file, damage, told):
    MadeUpStudy(arms={"first": {"a": 1.0}}).write(tmp_path)
    damage(tmp_path / file)
    with pytest.raises(StudyError, match=told) as error:
        made_tables(tmp_path, "evaluation")
    assert str(error.value).startswith(str(tmp_path / file))


def test_answers_to_another_version_of_the_problems_are_refused(tmp_path):
    MadeUpStudy(arms={"first": {"a": 1.0}}).write(tmp_path)
    study = read_study(tmp_path / "study.json")
    problems = tmp_path / study.questions["gsm8k_test"]
    record = tmp_path / "evaluation/first-00000000/seed0/gsm8k_test.json"
    for inputs in ({}, {"inputs": {"problems": sha256(problems)}}):
        record.write_text(json.dumps(inputs))
        made_tables(tmp_path, "evaluation")
    record.write_text(json.dumps({"inputs": {"problems": "other"}}))
    with pytest.raises(StudyError, match=r"gsm8k_test.parquet: answers to another version .* run the same command"):
        made_tables(tmp_path, "evaluation")


def test_odd_studies_have_tables(tmp_path):
    for name, study in {
        "one of everything": MadeUpStudy(arms={"only": {"a": 1.0}}, seeds=(4,), steps=1, rollouts=1),
        "no gradients": MadeUpStudy(arms={"only": {"a": 1.0, "b": 0.0}}, seeds=(4,), gradients_every=0),
        "no direction": MadeUpStudy(constant_from=1),
    }.items():
        study.write(tmp_path / name)
        folder = write_tables(tmp_path / name)
        assert pq.read_schema(folder / "similarity_by_step.parquet").field("cosine").type == "double"


def test_command_tells_an_error_in_one_line(tmp_path):
    command = [sys.executable, "-m", "reward_ablation.analysis", "training", "--study", "none.json", "--output", "."]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stderr.startswith("error: none.json: there is no such file")
    assert result.stderr.count("\n") == 1


def test_a_run_trained_on_other_rows_of_the_same_source_is_refused_and_a_set_that_is_gone_is_not_asked_for(tmp_path):
    MadeUpStudy(arms={"first": {"a": 1.0}}).write(tmp_path)
    (tmp_path / "data" / "train.parquet").write_bytes(b"other problems")
    with pytest.raises(StudyError, match="trained on another version of its problems; run the same command again"):
        made_tables(tmp_path, "provenance")
    (tmp_path / "data" / "train.parquet").unlink()
    assert made_tables(tmp_path, "provenance")["provenance"]["runs"].max() == 2
