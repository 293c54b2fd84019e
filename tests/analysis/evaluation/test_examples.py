import pandas as pd
import pytest

from analysis.made_up import MadeUpStudy
from reward_ablation.analysis.evaluation.examples import choose, examples, verdict, visible, write_examples_page
from reward_ablation.analysis.evaluation.tables import SCHEMAS
from reward_ablation.analysis.study_file import read_study
from reward_ablation.analysis.tables import joined

HOSTILE = "\x1b[2Ja\u202eevil\u2066\x00 <script>alert(1)</script> & \ud7ff\ue000\r\n$x^2$ {0} %s" + "w" * 5000


@pytest.mark.parametrize(
    ("base", "baseline", "expected"),
    [
        ("01010", "00011", {"a": "first", "b": "first", "e": "gained"}),
        ("10000", "01000", {"a": "first", "b": "first"}),  # the first ones, whatever became of them
        ("01101", "10010", {"a": "first", "b": "first", "c": "lost", "d": "gained"}),  # others than the first ones, too
    ],
)
def test_problems_are_chosen_by_the_rule(base, baseline, expected):
    names = list("abcde")
    right = [pd.Series([mark == "1" for mark in marks], index=names) for marks in (base, baseline)]
    assert [*choose(names, *right).items()] == [*expected.items()]


def test_rows_are_the_base_model_and_the_first_seed_of_each_arm(tmp_path):
    study = read_study(MadeUpStudy(seeds=(3, 5)).write(tmp_path))
    table = joined(SCHEMAS["examples"], examples(study, tmp_path))
    assert list(table.columns) == SCHEMAS["examples"].names
    assert (table["mode"] == "greedy").all()
    for _, rows in table.groupby("problem_id"):
        assert rows["arm"].tolist() == ["base", *study.arm_names]
        assert rows["seed"].fillna(-1).tolist() == [-1, 3, 3, 3, 3]
    assert table["scores"].isna().all()  # no metrics of its own
    assert table[["problem_id", "question"]].iloc[0].tolist() == ["gsm8k_test:0", "What is 0?"]
    run = study.runs_of("format_only")[0]
    answers = pd.read_parquet(tmp_path / study.answers_file("gsm8k_test", run.name)).query("mode == 'greedy'")
    own = table[table["arm"] == "format_only"].set_index("problem_id")["correct_strict"]
    assert own.tolist() == answers.set_index("problem_id").loc[own.index, "correct_strict"].tolist()


def test_control_format_and_unassigned_characters_are_escapes():
    shown = visible(HOSTILE)
    assert shown.startswith("\\x1b[2Ja\\u202eevil\\u2066\\x00 <script>")
    assert visible("Größe 数 עברית é") == "Größe 数 עברית é"
    assert visible("a\u200bb\u00adc\U000e0041") == "a\\u200bb\\xadc\\U000e0041"
    assert visible("one\r\ntwo\rthree\ttab") == "one\ntwo\\x0dthree    tab"


def test_a_verdict_in_words():
    columns = ["correct_strict", "correct_lenient", "tokens", "truncated"]
    rows = pd.DataFrame([(True, True, 10, False), (False, True, 1, False), (False, False, 16, True)], columns=columns)
    rows["scores"] = ["quality 0.5", None, None]
    assert [verdict(row) for _, row in rows.iterrows()] == [
        "right, quality 0.5, 10 tokens",
        "right, but not in the format, 1 token",
        "wrong, 16 tokens, cut off by the limit",
    ]


def test_model_output_does_nothing_on_the_page(tmp_path):
    study = read_study(MadeUpStudy().write(tmp_path))
    table = joined(SCHEMAS["examples"], examples(study, tmp_path)).assign(
        completion=HOSTILE, question=HOSTILE, answer="<b>1</b>", gold="<i>2</i>"
    )
    write_examples_page(table, study, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert not any(tag in page for tag in ("<script", "<b>", "<i>", *"\x1b\u202e\u2066\x00\r"))
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "more characters)" in page
    assert "w" * 2000 not in page


@pytest.mark.parametrize("has_base", [True, False])
def test_the_page_compares_with_a_base_model_if_there_is_one(tmp_path, has_base):
    study = read_study(MadeUpStudy().write(tmp_path)).model_copy(update={"has_base": has_base})
    table = joined(SCHEMAS["examples"], examples(study, tmp_path)).query("chosen == 'first'")
    write_examples_page(table, study, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert [words in page for words in ("base model", "(lost)", "no further problem")] == [has_base] * 3
