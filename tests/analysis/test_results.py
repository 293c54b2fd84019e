"""Tables as data frames, and the difference of two studies, of made-up studies."""

import json
import shutil
import threading
import time
from typing import get_args

import pandas as pd
import pytest

from analysis.made_up import SCHEMAS, MadeUpStudy, write_tables
from reward_ablation.analysis.__main__ import main
from reward_ablation.analysis.comparison import COMPARED, compare
from reward_ablation.analysis.reading import read_parquet
from reward_ablation.analysis.results import COLUMNS, load
from reward_ablation.study.claims import Claim
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import write_parquet
from reward_ablation.system.locks import take


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("study")
    MadeUpStudy(datasets={"gsm8k_test": 60}).write(root)
    write_tables(root, rules=["provenance", "evaluation", "cost"])
    return root


def test_each_column_of_each_table_has_a_meaning(folder):
    known = pd.read_csv(COLUMNS, keep_default_na=False)
    assert known["column"].is_unique
    assert set(known["column"]) == {name for schema in SCHEMAS.values() for name in schema.names}
    assert (known["meaning"] != "").all()
    directions = known.set_index("column").loc["direction", "meaning"]
    assert directions.endswith(
        " or ".join(f"`{name}`" for name in get_args(Claim.model_fields["direction"].annotation))
    )
    study = load(folder)
    assert "combination" not in study.names
    for name in study.names:
        assert list(study.columns(name).index) == list(study[name].columns)


def test_tables_are_those_of_the_files(folder):
    study = load(str(folder))
    pd.testing.assert_frame_equal(
        study["paired_differences"], read_parquet(folder / "tables" / "paired_differences.parquet")
    )
    assert study.study.baseline == "correctness_only"
    with pytest.raises(StudyError, match="'paired': no table has this name; tables here: provenance, "):
        study["paired"]
    with pytest.raises(StudyError, match="there is no such file"):
        load(folder / "runs")


def test_arms_of_one_study_are_compared_as_in_its_own_table(folder):
    study = load(folder)
    own = study["paired_differences"].query("arm == 'length_only' and baseline == 'correctness_only'")
    others = {"length_only": "correctness_only", "format_only": "equal_weights"}
    with_base = compare(study, study, others)
    found = with_base.query("arm == 'length_only'")
    assert list(found.columns) == COMPARED
    estimates = [table.set_index(["mode", "metric"])["estimate"] for table in (own, found)]
    pd.testing.assert_series_equal(*estimates)
    assert (found["evaluation"] == "same").all()
    same = compare(study, study)
    assert set(same["arm"]) == {"base", *study.study.arm_names}
    assert (same["estimate"] == 0).all()
    assert (same["p"] == 1).all()
    without_base = load(folder)
    without_base.study = study.study.model_copy(update={"has_base": False})
    is_base = with_base["arm"] == "base"  # base models are no arms of the correction
    pd.testing.assert_frame_equal(with_base[~is_base].reset_index(drop=True), compare(without_base, study, others))
    assert (with_base["p_holm"] == with_base["p"])[is_base].all()


def test_what_cannot_be_compared_is_refused_in_one_line(folder, tmp_path):
    study = load(folder)
    with pytest.raises(StudyError, match="unknown arm 'x'; arms here: correctness_only, "):
        compare(study, study, {"format_only": "x"})
    MadeUpStudy(datasets={"gsm8k_test": 60}, samples=4).write(tmp_path / "samples")
    MadeUpStudy(datasets={"math": 60}).write(tmp_path / "math")
    MadeUpStudy(datasets={"gsm8k_test": 60}).write(tmp_path / "other")
    questions = tmp_path / "other" / "data" / "evaluation" / "gsm8k_test.parquet"
    write_parquet(read_parquet(questions).assign(answer="2"), questions)
    scores = scored(tmp_path / "scored", range(6))
    for one, other, message in (
        (study, load(tmp_path / "samples"), "other metrics"),
        (study, load(tmp_path / "math"), "have no data set of one name"),
        (study, load(tmp_path / "other"), "do not have the same questions and right answers"),
        (scores, scored(tmp_path / "none", range(6, 40)), "have no scored question in common"),
        (scores, scored(tmp_path / "ten", [], (0, 10)), r"^quality: its range is \[0, 1\] in \S+ and \[0, 10\] in"),
    ):
        with pytest.raises(StudyError, match=message):
            compare(one, other)


def scored(root, unscored, limits=(0, 1), key="11111111"):
    """A study whose models all have the number of the question, over 40, as score; without one where `unscored`."""
    arms = {"one": {"correctness": 1.0, "format": 0.0}, "two": {"correctness": 0.0, "format": 1.0}}
    MadeUpStudy(arms, seeds=(0, 1), steps=2, layers=0, datasets={"d": 40}, samples=0).write(root)
    content = json.loads((root / "study.json").read_text())
    content |= {"metrics": [{"name": "quality", "range": limits}], "scores": {"d": f"scores/{key}/{{run}}/d.parquet"}}
    (root / "study.json").write_text(json.dumps(content))
    for file in (root / "evaluation").rglob("d.parquet"):
        answers = read_parquet(file)
        numbers = answers["problem_id"].str.split(":").str[1].astype(int)
        scores = answers[["problem_id", "mode", "sample"]].assign(quality=(numbers / 40).where(~numbers.isin(unscored)))
        write_parquet(scores, root / "scores" / key / file.relative_to(root / "evaluation"))
    return load(root)


def test_questions_that_either_study_leaves_out_are_left_out_of_both(tmp_path):
    one, other = scored(tmp_path / "one", range(6)), scored(tmp_path / "other", range(34, 40), key="22222222")
    found = compare(one, other)
    assert set(found["questions"]) == {28}
    assert set(found["evaluation"]) == {"differ"}  # other scores
    assert found.loc[found["metric"] == "quality", ["estimate", "p"]].values.tolist() == [[0, 1]] * 3
    assert set(compare(one, one)["questions"]) == {34}
    imported = load(tmp_path / "one")
    imported.study = one.study.model_copy(update={"imported": ["one: 2 runs from trl files."]})
    for both, said in (((one, one), "same"), ((one, imported), "unknown"), ((imported, imported), "unknown")):
        assert set(compare(*both)["evaluation"]) == {said}  # settings of imported studies are not known


def test_tables_wait_for_the_job_of_a_killed_start_and_are_of_the_study_that_is_there_then(folder, tmp_path, capfd):
    results = shutil.copytree(folder, tmp_path / "results")
    command = ["cost", "--study", str(results / "study.json"), "--output", str(results / "tables")]
    earlier = take(results / ".tables_cost.lock")
    job = threading.Thread(target=main, args=[command])
    job.start()
    while "tables: waiting for process" not in capfd.readouterr().err:
        time.sleep(0.05)
    (results / "study.json").write_text((results / "study.json").read_text().replace('"length_only"', '"brief"'))
    earlier.release()
    job.join()
    assert "brief" in (results / "tables" / "cost.csv").read_text()
