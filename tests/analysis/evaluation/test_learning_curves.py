import pandas as pd
import pytest

from analysis.made_up import MadeUpStudy, made_tables
from reward_ablation.analysis.evaluation import stored_answers
from reward_ablation.analysis.evaluation.tables import SCHEMAS
from reward_ablation.analysis.evaluation.tables import learning_curves as parts_of_curves
from reward_ablation.analysis.study_file import read_study
from reward_ablation.analysis.tables import joined
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import write_parquet

VALUES = ["metric", "value", "questions", "answers"]


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A study that kept models, its last steps, its folder, and the rows of its curves."""
    root = tmp_path_factory.mktemp("kept")
    study = read_study(MadeUpStudy(keep_models=2).write(root))
    return study, root, learning_curves(study, root)


def learning_curves(study, root) -> pd.DataFrame:
    parts = parts_of_curves(
        study, root, {run.folder: 6 for run in study.runs}, stored_answers.means_reader(study, root)
    )
    return joined(SCHEMAS["learning_curves"], parts)


def of(table, **values):
    return table[(table[[*values]] == pd.Series(values)).all(axis=1)][VALUES].reset_index(drop=True)


def test_a_curve_has_the_kept_models_between_the_rows_of_evaluation_by_run(kept):
    study, root, table = kept
    for _, rows in table.groupby(["arm", "seed", "mode", "metric"]):
        assert rows["step"].tolist() == [0, 2, 4, 6]
    by_run = made_tables(root, "evaluation")["evaluation_by_run"]
    for run in study.runs:
        for mode in ("greedy", "sampled"):
            labels = {"arm": run.arm, "seed": run.seed, "mode": mode}
            pd.testing.assert_frame_equal(of(table, step=6, **labels), of(by_run, **labels))
            pd.testing.assert_frame_equal(of(table, step=0, **labels), of(by_run, arm="base", mode=mode))


def test_a_step_s_value_is_the_mean_of_its_answers(kept):
    study, root, table = kept
    files = [root / study.kept_answers_file("gsm8k_test", run.name) for run in study.runs_of("format_only")]
    answers = [pd.read_parquet(file).query("step == 4 and mode == 'greedy'") for file in files]
    expected = [rows["correct_strict"].mean() for rows in answers]
    rows = table.query("arm == 'format_only' and step == 4 and mode == 'greedy' and metric == 'accuracy_strict'")
    assert rows["value"].tolist() == pytest.approx(expected)


def test_kept_models_with_other_questions_are_refused(tmp_path):
    study = read_study(MadeUpStudy({"one": {"a": 1.0}}, seeds=(0,), keep_models=2).write(tmp_path))
    path = tmp_path / study.kept_answers_file("gsm8k_test", study.runs[0].name)
    rows = pd.read_parquet(path)
    write_parquet(rows[(rows["step"] != 4) | (rows["problem_id"] != "gsm8k_test:3")], path)
    with pytest.raises(StudyError, match=r"\.steps\.parquet: answers other questions than the study.s first model did"):
        learning_curves(study, tmp_path)
