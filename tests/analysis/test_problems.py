import pandas as pd
import pytest

from analysis.made_up import MadeUpStudy
from reward_ablation.analysis.evaluation.metrics import why_none_right
from reward_ablation.analysis.problems import SCHEMAS, counted, problem_curves, shares
from reward_ablation.analysis.study_file import StudyFile, read_study
from reward_ablation.analysis.tables import joined
from reward_ablation.figures.evaluation import problem_curves as draw_curves
from reward_ablation.system.files import sha256, write_json, write_parquet
from specs import COMPONENT


def test_shares_have_wilson_s_interval():
    """8 of 10: (0.4902, 0.9433), Newcombe 1998, method 3; 0 of 10: (0, 0.2775)."""
    right = [True] * 8 + [False] * 2 + [False] * 10
    rows = pd.DataFrame({"arm": ["a"] * 10 + ["b"] * 10, "seed": [0, 1] * 10, "right": right})
    table = shares(counted(rows, ["arm"]), 0.95).set_index("arm")
    assert table.loc["a", ["estimate", "low", "high"]].tolist() == pytest.approx([0.8, 0.4902, 0.9433], abs=1e-4)
    assert table.loc["b", ["estimate", "low", "high"]].tolist() == pytest.approx([0.0, 0.0, 0.2775], abs=1e-4)
    assert table.loc["b", "low"] == 0.0
    assert table[["seeds", "answers", "questions"]].to_numpy().tolist() == [[2, 10, 1]] * 2


@pytest.fixture
def kept(tmp_path):
    named = ("gsm8k:0", *(f"gsm8k_test:{number}" for number in range(6)))
    study = read_study(MadeUpStudy(keep_models=2, samples=4, shown_problems=named).write(tmp_path))
    return study, {run.folder: 6 for run in study.runs}, tmp_path


def test_evaluated_problems_have_a_row_an_arm_and_step(kept):
    study, steps, root = kept
    table = joined(SCHEMAS["problem_curves"], problem_curves(study, root, steps))
    assert list(table.columns) == SCHEMAS["problem_curves"].names
    table = table[table["source"] == "evaluation"]
    assert table["problem_id"].nunique() == 6
    for (_, _), rows in table.groupby(["problem_id", "arm"]):
        assert rows["step"].tolist() == [0, 2, 4, 6]
        assert rows["answers"].tolist() == [4, 8, 8, 8]  # one base model, two seeds
        assert rows["seeds"].tolist() == [1, 2, 2, 2]
    assert table["question"].str.startswith("What is ").all()
    row = table[(table["arm"] == "format_only") & (table["step"] == 4)].iloc[0]
    answers = [
        pd.read_parquet(root / study.kept_answers_file("gsm8k_test", run.name)) for run in study.runs_of("format_only")
    ]
    own = pd.concat(answers).query("step == 4 and mode == 'sampled' and problem_id == @row.problem_id")
    assert row["estimate"] == own["correct_strict"].mean()


def test_problems_of_training(kept):
    """The made-up runs train on one problem at each step."""
    study, steps, root = kept
    components = {"correctness": COMPONENT | {"function": "correctness"}}
    written = study.model_dump()
    for run in written["runs"]:
        run["spec"]["components"] = components
    write_json(written, root / "study.json")
    write_parquet(pd.DataFrame({"id": ["gsm8k:0"], "question": ["How many?"]}), root / "data" / "train.parquet")
    study = read_study(root / "study.json")
    for digest, question in ((sha256(root / "data" / "train.parquet"), "How many?"), ("another", None)):
        table = pd.concat(problem_curves(study, root, steps, digest))
        own = table[table["source"] == "training"]
        assert own["step"].tolist() == [1, 2, 3, 4, 5, 6] * 4
        assert own["problem_id"].unique().tolist() == ["gsm8k:0"]
        assert own["dataset"].isna().all()
        assert own["question"].dropna().unique().tolist() == ([question] if question else [])
        rollouts = [pd.read_parquet(root / run.folder / "rollouts.parquet") for run in study.runs_of("length_only")]
        expected = pd.concat(rollouts).query("step == 3")["score_correctness"].mean()
        assert own.query("arm == 'length_only' and step == 3")["estimate"].item() == expected
        assert own.query("arm == 'length_only' and step == 3")["answers"].item() == 16
    first = study.runs_of("length_only")[0]
    unscored = rollouts[0]["step"].eq(3) & rollouts[0]["rollout"].lt(4)
    rollouts[0].loc[unscored, "score_correctness"] = None  # neither right nor wrong
    write_parquet(rollouts[0], root / first.folder / "rollouts.parquet")
    own = pd.concat(problem_curves(study, root, steps)).query(
        "source == 'training' and arm == 'length_only' and step == 3"
    )
    assert own["answers"].item() == 12
    assert own["estimate"].item() == pd.concat(rollouts).query("step == 3")["score_correctness"].mean()


def test_a_single_arm_that_met_more_problems_than_are_shown(tmp_path, capsys):
    named = ("gsm8k:5", "gsm8k:1", "nothing")
    made_up = MadeUpStudy(arms={"one": {"correctness": 1.0}}, problems=8, shown_problems=named)
    study = read_study(made_up.write(tmp_path))
    table = pd.concat(problem_curves(study, tmp_path, {run.folder: 6 for run in study.runs}))
    assert table["problem_id"].unique().tolist() == ["gsm8k:5", "gsm8k:1"]
    assert capsys.readouterr().out == (
        "problem_curves: without nothing: no run with scores of correctness and no evaluation met them\n"
    )


@pytest.mark.parametrize(
    ("function", "ends", "words"),
    [
        (
            "correctness",
            None,
            "no run with scores of correctness met them; in evaluation no metric does, as the first ",
        ),
        ("answer_format", [0, 1], "no evaluation met them; in training no component says which answers are right"),
        ("answer_format", None, "in training no component says which answers are right; in evaluation no metric does"),
    ],
)
def test_what_nothing_judges_is_told_apart_from_what_nobody_met(function, ends, words):
    made_up = MadeUpStudy(arms={"one": {"correctness": 1.0}}, shown_problems=("gsm8k:0",)).plan()
    for run in made_up["runs"]:
        run["spec"]["components"]["correctness"]["function"] = function
    made_up |= {"mathematics": False, "metrics": [{"name": "score", "range": ends}]}
    study = StudyFile.model_validate(made_up)
    assert why_none_right(study).startswith(words)
    figure = draw_curves(pd.DataFrame(), study)
    text = " ".join(each.get_text() for axes in [figure, *figure.axes] for each in axes.texts)
    assert words[:40] in " ".join(text.split())
