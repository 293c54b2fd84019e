"""lighteval: what its tracker wrote, and variants of its rows."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reward_ablation.imported.readers.lighteval import read_answers
from reward_ablation.imported.rows import checked
from reward_ablation.system.errors import StudyError

FILES = Path(__file__).parents[1] / "files" / "lighteval"
DOC = {"id": "0", "query": "q", "choices": ["a", "b"], "gold_index": [0, 1]}


def saved(folder, doc=DOC, metric=None, response=None):
    """Details of one question, below folders as lighteval has them."""
    file = folder / "details/org/model/2026-01-02T03-04-05.6" / "details_gsm8k|0_2026-01-02T03-04-05.6.parquet"
    file.parent.mkdir(parents=True)
    row = {"doc": doc, "metric": metric or {"em": 1}, "model_response": response or {"text": ["r"]}}
    pq.write_table(pa.Table.from_pylist([row]), file)
    return folder


def test_details_that_lighteval_wrote():
    answers = read_answers(FILES, {"metric": "em"})
    table = checked("answers", answers.table, "lighteval").to_pydict()
    assert table["problem_id"] == ["0", "1"]
    assert table["question"] == ["Question: What is 2 + 3?\nAnswer:", "Question: How many legs has a cat?\nAnswer:"]
    assert table["gold"] == ["5", "4"]
    assert table["completion"] == ["5", "No idea"]
    assert table["correct"] == [True, False]
    assert table["f1"] == [1.0, 0.0]
    assert table["sample"] == [0, 0]
    assert answers.missing == ["The files do not say how answers were drawn; they count as greedy (option mode)."]


@pytest.mark.parametrize(
    ("response", "mode", "sentences"),
    [
        ({"text": ["r", "s"]}, "sampled", ["lighteval keeps one score for all samples of a question; the first"]),
        ({"text": []}, "greedy", ["Answers that are chosen by their likelihood", "The files do not say how"]),
    ],
)
def test_responses(response, mode, sentences, tmp_path):
    answers = read_answers(saved(tmp_path, response=response), {})
    assert answers.table["mode"].to_pylist() == [mode]
    assert answers.table["gold"].to_pylist() == ["a; b"]
    assert [missing.startswith(start) for missing, start in zip(answers.missing, sentences, strict=True)]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"metric": {"em": [1]}}, "0 metrics; .*none here"),
        ({"metric": {"em": float("inf")}}, "row 1: metric: em is inf, not a finite number"),
        ({"metric": {"em": None}}, "no answers in it"),
        ({"doc": {"id": "7"}}, "row 1: doc: no query; here: id"),
        ({"doc": "text"}, "row 1: doc is a str, not an object"),
        ({"response": {"text": [["r"]]}}, "row 1: text is a list"),
    ],
)
def test_refused(parts, message, tmp_path):
    with pytest.raises(StudyError, match=message):
        checked("answers", read_answers(saved(tmp_path, **parts), {}).table, "details")
