"""The main table of a paper and the first page of the report: numbers are those of the tables, and text is inert."""

import html
import re

import pandas as pd
import pytest
from matplotlib.text import Text

from reward_ablation.analysis.training_rewards import end_of_training
from reward_ablation.figures.evaluation import by_level, differences, primary
from reward_ablation.report.main_table import as_latex, as_markdown, latex, main_table, table_of_training
from reward_ablation.report.overview import overview
from reward_ablation.report.summary import about_seeds, setting, summary
from reward_ablation.study.looks import Sequential

TABLES = ["evaluation_by_arm", "paired_differences"]
LOST_BY_EACH = (("correctness_only", 0), ("format_only", 1), ("length_only", 0), ("equal_weights", 1))

HOSTILE = "x_1 & 100% #{$y^2$} \\input{a} <b onload='f()'>\"~\n\x0c.. include:: /etc/passwd\u2028é"


@pytest.fixture
def made(study, tables):
    """The study with flagged arms, and its tables."""
    question = {"dataset": "gsm8k_test", "mode": "greedy", "metric": "accuracy_strict"}
    study = study.model_copy(update={"primary": study.primary.model_copy(update=question)})
    rows = tables["evaluation_by_arm"]
    flagged = (rows["arm"] == "format_only") & (rows["metric"] == "format")
    tables["evaluation_by_arm"] = rows.assign(flagged_arms=flagged.map({True: "format_only", False: None}))
    rows = tables["paired_differences"]
    declared = (rows["mode"] == "greedy") & (rows["metric"] == "accuracy_strict") & (rows["arm"] != "length_only")
    family = declared.map({True: "primary", False: "exploratory"})
    tables["paired_differences"] = rows.assign(family=family, flagged_arms=None, decision=None)
    return study, tables


def plain_number(words: str) -> list[float]:
    return [float(text.replace("−", "-").replace("$-$", "-")) for text in re.findall(r"(?:−|\$-\$)?\d+\.\d+", words)]


def latex_cells(words: str) -> list[list[str]]:
    """Rows of the table of a LaTeX file, its cells split at `&` that is no character."""
    body = words.partition(r"\toprule")[2].partition(r"\bottomrule")[0].replace(r"\midrule", "")
    rows = [row.strip() for row in body.split(r"\\") if row.strip()]
    return [[cell.strip() for cell in re.split(r"(?<!\\)&", row)] for row in rows]


def test_numbers_are_those_of_the_tables(made):
    study, tables = made
    main = main_table(study, tables["evaluation_by_arm"], tables["paired_differences"])
    head, *rows = latex_cells(as_latex(main))
    assert [row[0].replace("\\_", "_") for row in rows] == ["base", *study.arm_names]
    assert {len(row) for row in (head, *rows)} == {len(main.columns)}
    of_arm = tables["evaluation_by_arm"].query("mode == 'greedy'").set_index(["arm", "metric"])
    of_pair = tables["paired_differences"].query("mode == 'greedy' and metric == 'accuracy_strict'").set_index("arm")
    for row, in_latex in zip(main.rows, rows, strict=True):
        cells = dict(zip(main.columns, row, strict=True))
        for name, metric in {"strict accuracy": "accuracy_strict", "format adherence": "format"}.items():
            expected = of_arm.loc[(row[0], metric), ["estimate", "low", "high"]].tolist()
            assert plain_number(cells[name]) == pytest.approx(expected, abs=0.00051)
        expected = of_pair.loc[row[0], ["estimate", "low", "high"]].tolist() if row[0] in of_pair.index else []
        assert plain_number(row[-2]) == pytest.approx(expected, abs=0.00051)
        assert [plain_number(cell) for cell in row] == [plain_number(cell) for cell in in_latex]
    assert as_markdown(main).count("\n| ") == len(study.arms) + 2


def test_flagged_and_exploratory_numbers_are_marked(made):
    study, tables = made
    main = main_table(study, tables["evaluation_by_arm"], tables["paired_differences"])
    marked = {row[0]: [name for name, cell in zip(main.columns, row, strict=True) if "†" in cell] for row in main.rows}
    assert {arm: names for arm, names in marked.items() if names} == {"format_only": ["format adherence"]}
    assert [row[0] for row in main.rows if row[-1].endswith("‡")] == ["length_only"]
    assert "95 % intervals over seeds and questions" in main.caption
    assert "†: " in main.caption
    assert "‡: " in main.caption


def test_characters_that_latex_would_join_stay_apart():
    words = latex("models--Qwen--x ---, ''a`` ,,b ?`c !`d -'e")
    assert words == "models-{}-Qwen-{}-x -{}-{}-, '{}'a`{}` ,{},b ?{}`c !{}`d -'e"
    assert latex("– 0.1") == r"\textendash{} 0.1"


def test_latex_takes_any_text_as_text(made):
    study, tables = made
    study = study.model_copy(update={"model": HOSTILE})
    words = as_latex(main_table(study, tables["evaluation_by_arm"], tables["paired_differences"]))
    assert words.isascii()
    assert r"x\_1 \& 100\% \#\{\$y\textasciicircum{}2\$\} \textbackslash{}input\{a\} \textless{}b" in words
    # commands are ours, braces pair up, and no character of the text is special
    allowed = {"begin", "end", "centering", "small", "caption", "label", "toprule", "midrule", "bottomrule"}
    allowed |= {"dag", "ddag"}
    allowed |= {name.strip("\\{}") for name in map(latex, '\\~^<>|"')} | {"textsuperscript", "textendash", "usepackage"}
    assert set(re.findall(r"\\([a-zA-Z]+)", words)) <= allowed
    bare = re.sub(r"\\[&%$#_{}\\]", "", words)
    assert bare.count("{") == bare.count("}")
    assert all(line.startswith("% Needs") for line in bare.splitlines() if "%" in line)
    assert set(re.findall(r"\$[^$]*\$", bare)) <= {"$-$", r"$\pm$"}
    assert not set("#^_~") & set(bare.replace("tab:main", ""))


@pytest.mark.parametrize(("missing", "unpaired"), [((), False), (LOST_BY_EACH, True)], ids=["none", "one of each arm"])
def test_captions_and_the_summary_say_where_arms_have_other_seeds(made, missing, unpaired):
    study, tables = made
    runs = [run.model_dump() for run in study.runs if (run.arm, run.seed) not in missing]
    study = study.model_validate({**study.model_dump(by_alias=True), "runs": runs})
    of_all = ", or of all seeds of each arm, whichever has the smaller 95 % margin"
    words = "by the seeds that both have" + of_all * unpaired
    assert f"are paired by question, and {words}." in main_table(study, *(tables[name] for name in TABLES)).caption
    figure = differences(tables["paired_differences"], tables["evaluation_by_arm"], study)
    drawn = " ".join(text.get_text() for text in figure.findobj(Text))
    assert f"are paired by question, and {words}." in " ".join(drawn.split())
    assert f" ({'of ' * unpaired}0, 1). Evaluated" in setting(study)


def test_the_caption_says_what_the_numbers_are(made):
    """Whether intervals are repeated ones, and over what; which correction there is."""
    study, tables = made

    def caption(**changed) -> str:
        return main_table(study.model_copy(update=changed), *(tables[name] for name in TABLES)).caption

    plan = {"looks": [2, 3], "stop": "pocock", "margin": None, "level": 0.05, "question": "q", "evaluation": "e"}
    record = plan | {"arms": {}, "declared": "2026-01-31T11:00:00Z", "runs_then": 0}
    look = {"seeds": 2, "date": "2026-01-31T12:00:00Z", "contrasts": [], "error_left": 0.03}
    for taken in ([], [look]):
        with_looks = caption(sequential=Sequential.model_validate(record | {"taken": taken}))
        assert ("repeated confidence intervals" in with_looks) == bool(taken)
    runs = [run for run in study.runs if (run.arm, run.seed) != ("format_only", 1)]
    some_of_one_seed = "differences to arms with this seed, are over questions only"
    assert some_of_one_seed in caption(runs=runs)
    assert some_of_one_seed in about_seeds(study.model_copy(update={"runs": runs}))
    declared = "Holm p: corrected over the declared comparisons."
    assert declared in caption()
    tables["paired_differences"]["family"] = "exploratory"  # the declared ones are with other arms
    assert declared not in caption()
    assert "‡: exploratory, not a declared comparison; corrected over" in caption()


def test_the_first_page_has_the_result_and_escapes_what_it_shows(made, cost):
    study, tables = made
    study = study.model_copy(update={"model": HOSTILE})
    page = overview(study, tables, cost, b"png")
    assert "<b onload" not in page
    assert "\x0c" not in page
    assert "\u2028" not in page
    words = html.unescape(page)
    row = tables["paired_differences"].query("family == 'primary'").iloc[0]
    estimate, low, high = (f"{row[name]:.3f}".replace("-", "−") for name in ("estimate", "low", "high"))
    assert f"{row['arm']} minus {row['baseline']}: {estimate} (95 % interval {low} to {high}, Holm p" in words
    assert re.search(r'<img src="data:image/png;base64,cG5n" alt="[^"]{40,}">', page)
    assert "4 arms × 2 seeds: 8 runs" in words
    assert "1.25" in words
    assert "format_only (format adherence)" in words


def test_what_is_missing_is_named(made, cost):
    study, tables = made
    runs = [run for run in study.runs if run.arm != "length_only" or run.seed == 0]
    preview = {"runs": 7, "planned": 8, "missing": ["length_only, seed 1: running"], "caution": "Do not stop by it."}
    part = study.model_validate({**study.model_dump(by_alias=True), "runs": [run.model_dump() for run in runs]})
    part = part.model_validate({**part.model_dump(by_alias=True), "preview": preview})
    words = html.unescape(overview(part, tables, cost, b""))
    assert "Preview of 7 of 8 runs. Do not stop by it." in words
    assert "length_only, seed 1: running" in words
    assert "Arms with one seed, so that nothing is known of other seeds: length_only." in words
    part = study.model_copy(update={"left_out": ["high, seed 0, diverged at step 2."]})
    assert "high, seed 0, diverged at step 2." in html.unescape(overview(part, tables, cost, b""))
    assert "can be shown. Runs are missing" in main_table(part, *(tables[name] for name in TABLES)).caption
    none = tables | {"paired_differences": tables["paired_differences"].assign(family="all arms")}
    assert "No declared comparison can be shown, as runs are missing. Mean" in overview(part, none, cost, b"")
    one_arm = tables | {"paired_differences": tables["paired_differences"].iloc[:0]}
    words = html.unescape(overview(study, one_arm, cost, b""))
    assert "The study compares no two arms. Mean strict accuracy on gsm8k_test (greedy): base: " in words
    tables["evaluation_by_arm"] = tables["evaluation_by_arm"].assign(flagged_arms=None)
    assert "Nothing: all planned runs are finished" in overview(study, tables, cost, b"")
    imported = study.model_copy(update={"imported": ["a file lacks steps"]})
    assert "Nothing beside the list above: all planned" in overview(imported, tables, cost, b"")
    tables["evaluation_by_run"] = tables["evaluation_by_run"].assign(unscored=3)
    page = overview(study, tables, cost, b"")
    assert "gsm8k_test: 3 questions left out, because a metric gave no score to an answer." in page
    assert "Nothing: " not in page


def test_a_primary_data_set_that_is_not_shown_is_named(made, cost):
    study, tables = made
    words = "The primary question is about later, which is not shown."
    study = study.model_copy(update={"primary": study.primary.model_copy(update={"dataset": "later"})})
    tables["paired_differences"]["family"] = "exploratory"
    assert f'<p class="result">{words}</p>' in overview(study, tables, cost, b"")
    assert words in main_table(study, *(tables[name] for name in TABLES)).caption
    assert words in summary(study, tables, cost)
    for figure in (
        primary(tables["paired_differences"], tables["evaluation_by_arm"], study),
        by_level(tables["paired_differences"].iloc[:0], study),
    ):
        assert words in " ".join(text.get_text() for text in figure.findobj(Text))


def test_a_study_without_evaluation_compares_the_scores_at_the_end_of_training(made, cost):
    study, tables = made
    study = study.model_copy(update={"datasets": [], "has_base": False})
    # The n-th arm is higher by 0.10 n with seed 0, and by 0.11 n with seed 1.
    rows = [
        (arm, seed, step, "format", number * (0.1 + 0.01 * seed))
        for number, arm in enumerate(study.arm_names)
        for seed in (0, 1)
        for step in (1, 2)
    ]
    tables["rewards_by_step"] = pd.DataFrame(rows, columns=["arm", "seed", "step", "quantity", "mean"])
    first, second = study.arm_names[:2]
    end = end_of_training(study, tables["rewards_by_step"])[1]
    ends = f"[{end.low:.3f}, {end.high:.3f}]"
    assert end.low < 0.1 < 0.11 < end.high
    words = summary(study, tables, cost)
    assert f"| {first} | format | 0.000 | – | – |\n| {second} | format | 0.105 | 0.105 | {ends} |" in words
    main = table_of_training(study, tables["rewards_by_step"])
    assert [row[-2:] for row in main.rows][:2] == [["0.000", "–"], [f"0.105 {ends}", "–"]]
    page = html.unescape(overview(study, tables, cost, b""))
    assert f"3 of 3 differences to {first} have an interval without 0." in page
    assert f"{second} minus {first}, format: 0.105 {ends}" in page
