"""Stored answers scored by functions with a reward's signature."""

import math

import pandas as pd
import pytest

from reward_ablation.rewards.load import load_component
from reward_ablation.scores.score import BATCH, score_answers
from reward_ablation.system.errors import StudyError

PROBLEMS = pd.DataFrame(
    {"id": ["a", "b"], "question": ["A?", "B?"], "answer": [None, None], "words": [["x", "y"], ["z"]]}
)
ANSWERS = pd.DataFrame(
    {
        "problem_id": ["b", "a", "a"],
        "mode": ["greedy", "greedy", "sampled"],
        "sample": [0, 0, 0],
        "completion": ["z", "x", "x y"],
        "tokens": [1, 2, 3],
        "truncated": False,
    }
)


def share(completions, words, **columns):
    return [sum(word in text for word in of) / len(of) for text, of in zip(completions, words, strict=True)]


def test_each_answer_gets_the_columns_of_its_problem():
    scores = score_answers(ANSWERS, PROBLEMS, {"share": share})
    assert scores["share"].tolist() == [1.0, 0.5, 1.0]
    assert list(scores) == ["problem_id", "mode", "sample", "share"]
    with pytest.raises(StudyError, match="answers to b, which the evaluation set does not have"):
        score_answers(ANSWERS, PROBLEMS.head(1), {"share": share})


def test_no_score_is_none_and_not_zero(capsys):
    known = {"z": None, "x": 0.0, "x y": 2}
    scores = score_answers(ANSWERS, PROBLEMS, {"maybe": lambda completions, **columns: [*map(known.get, completions)]})
    assert math.isnan(scores["maybe"][0])
    assert scores["maybe"].tolist()[1:] == [0.0, 2.0]
    assert "maybe: 3 of 3 answers, 1 without a score" in capsys.readouterr().out


def test_a_mistake_of_a_metric_is_told_as_one_of_evaluation(tmp_path):
    (tmp_path / "own.py").write_text("def wrong(completions, **columns):\n    return [1 / 0]\n")
    wrong = load_component("own.py:wrong", {}, tmp_path, "quality", section="evaluation.metrics")
    with pytest.raises(
        StudyError, match=r"^evaluation\.metrics\.quality: .*ZeroDivisionError.*in evaluation, problem a"
    ):
        score_answers(ANSWERS.iloc[1:2], PROBLEMS, {"quality": wrong})


def test_a_metric_sees_the_whole_group_of_a_problem():
    """The samples of a problem in one call, apart from its greedy answer and from those of other models."""
    samples, problems = 3, 2 * BATCH // 3
    rows = [
        {"step": step, "problem_id": f"p{problem}", "mode": mode, "sample": sample, "completion": f"{step} {problem}"}
        for step in (1, 2)
        for problem in range(problems)
        for mode, sample in [("greedy", 0), *(("sampled", sample) for sample in range(samples))]
    ]
    answers = pd.DataFrame(rows).sample(frac=1, random_state=0)
    set_of_problems = pd.DataFrame({"id": [f"p{problem}" for problem in range(problems)]})
    calls = []

    def group_size(completions, problem_id, **columns):
        calls.append(len(completions))
        assert len({text.split()[0] for text in completions}) == 1
        return [float(problem_id.count(problem)) for problem in problem_id]

    scores = score_answers(answers, set_of_problems, {"size": group_size})
    labels = ["step", "problem_id", "mode"]
    assert scores[labels].values.tolist() == answers[labels].values.tolist()
    assert (scores["size"] == scores["mode"].map({"greedy": 1, "sampled": samples})).all()
    assert max(calls) < BATCH + samples


@pytest.mark.parametrize("edited", ["own.py", "words.txt"])
def test_a_metric_with_a_file_that_has_changed_since_the_start_scores_nothing(stored, monkeypatch, edited):
    monkeypatch.chdir(stored.folder)
    marked = "from reward_ablation.rewards.parameters import FilePath\n"
    own = "def own(completions, *, words: FilePath, **columns):\n    return [1.0 for _ in completions]\n"
    (stored.folder / "own.py").write_text(marked + own)
    (stored.folder / "words.txt").write_text("1.0")
    metric = {"own": ("own.py:own", {"words": "words.txt"})}
    assert stored.score(metric)["own"].tolist() == [1.0] * 4
    before, file = (stored.folder / "scores.parquet").stat(), stored.folder / edited
    with pytest.raises(StudyError, match="has changed since the workflow was started; start it again"):
        stored.score(metric, meanwhile=lambda: file.write_text(file.read_text().replace("1.0", "2.0")))
    assert (stored.folder / "scores.parquet").stat() == before
