"""The summary: each number stands in the row of the table that it names."""

import re

import numpy as np
import pandas as pd
import pytest

from analysis.made_up import SCHEMAS, MadeUpStudy
from reward_ablation.analysis.evaluation.metrics import NAMES as METRICS
from reward_ablation.analysis.study_file import StudyFile
from reward_ablation.analysis.tables import write_csv, write_tables
from reward_ablation.analysis.words import p_value
from reward_ablation.report.__main__ import main
from reward_ablation.report.summary import nothing_measured, plain, sequential, summary
from reward_ablation.study.primary import Declared


def tables_in(words: str) -> list[tuple[str, list[dict[str, str]]]]:
    """Tables of Markdown, each with the name in the line above it and its rows by column."""
    found = re.findall(r"\(table `(\w+)`\)[^\n]*\n\n((?:\|[^\n]*\n)+)", words)
    split = [(name, [line.strip("| ").split(" | ") for line in text.splitlines()]) for name, text in found]
    return [(name, [dict(zip(lines[0], line, strict=True)) for line in lines[2:]]) for name, lines in split]


def test_each_number_is_in_the_row_that_it_names(study, tables, cost):
    found = tables_in(summary(study, tables, cost))
    assert [name for name, _ in found] == [
        name for name in ("evaluation_by_arm", "paired_differences", "component_effects") for _ in range(2)
    ]
    *_, (_, lines) = [each for each in found if each[0] == "evaluation_by_arm"]
    line = next(line for line in lines if (line["arm"], line["metric"]) == ("format_only", "strict accuracy"))
    own = tables["evaluation_by_run"].query(
        "arm == 'format_only' and mode == 'sampled' and metric == 'accuracy_strict'"
    )
    assert line["by seed"] == ", ".join(f"{value:.3f}" for value in own.sort_values("seed")["value"])
    checked, told_rows = 0, [(name, line["row"]) for name, lines in found for line in lines]
    assert len({*told_rows}) == len(told_rows) == 2 * (5 * 4 + 3 + 3)  # each row is told once
    for name, lines in found:
        for line in lines:
            source = tables[name].iloc[int(line.pop("row")) - 1]
            for label in set(line) & {"arm", "component", "provenance"}:
                assert line[label] == source[label]
            metric = line.get("metric", "strict accuracy")
            assert METRICS[source["metric"]] == metric
            digits = 1 if metric == "completion tokens" else 3
            columns = {"interval": ["low", "high"], "Holm p": ["p_holm"], "p of ±0.02 or more": ["p_equivalent"]}
            columns |= {told: ["estimate"] for told in ("mean", "difference", "effect")}
            for told in set(line) & set(columns):
                given = [float(text) for text in re.findall(r"-?\d+\.\d+", line[told].replace("−", "-"))]
                places = 3 if " p" in told or told.startswith("p ") else digits
                assert given == [pytest.approx(source[c], abs=0.51 * 10**-places) for c in columns[told]]
                checked += len(given)
    assert checked == 3 * (5 * 2 * 4) + 4 * (3 * 2) + 4 * (2 * 3)


def test_the_summary_begins_with_the_primary_question(study, tables, cost):
    table = tables["paired_differences"]
    asked = (table["mode"] == "greedy") & (table["metric"] == "accuracy_strict") & (table["arm"] != "length_only")
    table = table.assign(family=np.where(asked, "primary", "exploratory"), p_holm=0.01)
    table.loc[table.index[asked][0], ["pooled_low", "pooled_high"]] = (-0.25, 0.5)
    tables["paired_differences"] = table
    words = summary(study.model_copy(update={"equivalence_margin": 0.02}), tables, cost)
    assert next(line for line in words.splitlines() if line.startswith("## ")) == "## Primary question"
    (name, lines), *_ = tables_in(words)
    assert name == "paired_differences"
    assert [line["arm"] for line in lines] == ["format_only", "equal_weights"]
    assert {line["against"] for line in lines} == {"correctness_only"}
    for line in lines:
        source = tables["paired_differences"].iloc[int(line["row"]) - 1]
        assert float(line["p of ±0.02 or more"]) == pytest.approx(source["p_equivalent"], abs=6e-4)
    assert "gsm8k_test, greedy, strict accuracy (table `paired_differences`): 2 of 2 with Holm p < 0.05" in words
    assert "p of ±0.02 or more: of each row alone, uncorrected. " in words
    assert words.index("All that follows is exploratory") > words.index("## Primary question")
    assert "would be format_only against correctness_only [−0.250, 0.500] (columns" in words  # if all differed alike
    told = [line["row"] for table, lines in tables_in(words) for line in lines if table == "paired_differences"]
    assert len(told) == len(set(told)) == 6


EARLIER = {"metric": "format", "contrasts": [], "declared": "2026-01-31T11:00:00Z", "digest": "1"}


@pytest.mark.parametrize(
    ("hour", "changed", "words"),
    [
        (
            12,
            {"runs_then": 8},
            "Declared when 8 runs had begun: what these runs may have suggested, they cannot confirm.",
        ),
        (12, {"runs_then": 1, "earlier": [EARLIER]}, "Changed when 1 run had begun: what"),
        (10, {"earlier": [EARLIER]}, "Declared before the first run. In between, 1 other question was declared."),
        (12, {"runs_then": None}, "Declared, but it is not known whether before the first run: records of runs do not"),
        (None, {}, "Never declared."),
    ],
)
def test_when_the_question_was_declared_is_said(study, tables, cost, hour, changed, words):
    tables["paired_differences"] = tables["paired_differences"].assign(family="primary")
    earlier = [Declared(dataset="test", mode="greedy", **each) for each in changed.get("earlier", [])]
    declared = hour and f"2026-01-31T{hour}:00:00Z"
    primary = study.primary.model_copy(update=changed | {"declared": declared, "earlier": earlier})
    since = {"added_arms": ["late"], "removed_arms": ["gone"]}
    text = summary(study.model_copy(update={"primary": primary, **since}), tables, cost)
    assert words in text
    assert "without a part in the variance between seeds here: late. Taken out since, " in text
    assert "with the part that they had in it: gone." in text


UNKNOWN = dict.fromkeys(["estimate", "low", "high", "p_holm"], np.nan)


@pytest.mark.parametrize(
    ("table", "change", "words"),
    [
        (
            "evaluation_by_run",
            lambda rows: pd.concat([rows.assign(seed=seed, value=0.2 + seed / 10) for seed in range(5)]),
            "| 0.200 to 0.600 |",
        ),
        ("evaluation_by_arm", lambda rows: rows.assign(low=0.0, high=1.0), "[0.000, 1.000] (says nothing) |"),
        ("evaluation_by_arm", lambda rows: rows.assign(low=0.0, high=1.0), "[0.0, 1.0] |"),  # tokens may be more
        ("paired_differences", lambda rows: rows.assign(low=-0.9, high=0.9), "[−0.900, 0.900] |"),  # of 2
        ("paired_differences", lambda rows: rows.assign(low=-0.95, high=0.95), "[−0.950, 0.950] (says nothing) |"),
        (
            "paired_differences",
            lambda rows: rows.assign(p_holm=np.where(rows["arm"] == "format_only", 0.049, 0.05)),
            "gsm8k_test, greedy (table `paired_differences`): 1 of 3 with Holm p < 0.05: format_only.",
        ),
        ("paired_differences", lambda rows: rows.assign(**UNKNOWN), "| [not known, not known] | no test |"),
        (
            "component_effects",
            lambda rows: rows.assign(**UNKNOWN, note="the model does not fit"),
            "(table `component_effects`): none, as the model does not fit.",
        ),
        ("paired_differences", lambda rows: rows.iloc[:0], "None: the study has one arm."),
        ("component_effects", lambda rows: rows.iloc[:0], "None: the arms of this study do not allow any."),
        ("reward_hacking", lambda rows: rows.iloc[:0], "Nothing could be compared"),
        ("reward_hacking", lambda rows: rows, "1 sign among 2 comparisons (table `reward_hacking`)."),
        ("reward_hacking", lambda rows: rows, "- format rose .45 -> .97 \\<b> (row 2)"),
        ("provenance", lambda rows: rows, "the same for all 8 runs: code c0de"),
        ("provenance", lambda rows: rows, "Cost (table `cost`, row 1): 8 runs took 1.25 hours; CPU hours: 1.50 by"),
    ],
)
def test_what_the_tables_say_is_in_words(study, tables, cost, table, change, words):
    assert words in summary(study, tables | {table: change(tables[table])}, cost)


def of_seeds(study, **kept: tuple[int, ...]):
    """The study with the runs of these seeds of some arms."""
    runs = [run for run in study.runs if run.seed in kept.get(run.arm, (0, 1))]
    return study.model_copy(update={"runs": runs})


def test_arms_without_a_common_seed_are_why_there_are_no_effects(cost, tables):
    arms = {"full": {"a": 1.0, "b": 1.0}, "no_a": {"a": 0.0, "b": 1.0}, "no_b": {"a": 1.0, "b": 0.0}}
    tables["component_effects"] = tables["component_effects"].iloc[:0]
    study = StudyFile.model_validate(MadeUpStudy(arms, seeds=(0, 1), layers=0, design="factorial").plan())
    assert "None: the arms have no seed in common." in summary(of_seeds(study, full=(0,), no_a=(1,)), tables, cost)
    assert "None: a factorial design of two components or more needs" in summary(study, tables, cost)


@pytest.mark.parametrize(
    ("kept", "seeds", "words"),
    [
        ({}, 2, "minus the one that lacks this one (table"),
        ({"format_only": (0,)}, 1, "this one, over the 1 seed that all arms of the effects have, with intervals over"),
        ({"format_only": (0,)}, 2, "this one, over the 2 seeds that all arms of the effects have (table"),
    ],
)
def test_effects_over_fewer_seeds_than_the_study_has_say_so(study, tables, cost, kept, seeds, words):
    tables["component_effects"]["seeds"] = seeds
    assert words in summary(of_seeds(study, **kept), tables, cost)


@pytest.mark.parametrize(
    ("seeds", "words"),
    [
        ([0], "One seed: the intervals are over questions only"),
        ([0], "Brackets: 95 % intervals over questions only: nothing is known of other seeds. They"),
        ([0, 1, 2, 3], "4 seeds say little about how much seeds differ. So intervals and tests also use"),
        ([0, 1, 2, 3, 4], "treat the 5 seeds and the questions as random samples"),
        ([0, 1], "Brackets: 95 % intervals over seeds and questions; base model: over questions only. They"),
    ],
)
def test_few_seeds_are_said(study, tables, cost, seeds, words):
    first = [run for run in study.runs if run.seed == study.seeds[0]]
    runs = [run.model_copy(update={"seed": seed}) for run in first for seed in seeds]
    assert words in summary(study.model_copy(update={"seeds": seeds, "runs": runs}), tables, cost)


def test_two_arms_borrow_no_variance(study, tables, cost):
    two = study.model_copy(update={"arms": study.arms[:2]})
    assert "how much seeds differ. Intervals and tests partly rest on this" in summary(two, tables, cost)


@pytest.mark.parametrize(
    ("metric", "value", "words"),
    [
        ("accuracy_strict", 0.2, None),
        ("accuracy_strict", 0.0, "**The primary metric means nothing here:** no answer"),
        # These need no format, so that they are not 0 for want of it.
        ("truncated", 0.0, "**The primary metric says nothing here:**"),
        ("accuracy_lenient", 0.0, "**The primary metric says nothing here:**"),
    ],
)
def test_a_metric_means_nothing_where_no_answer_is_found_and_all_are_0(study, metric, value, words):
    primary = study.primary.model_copy(update={"metric": metric})
    rows = {"dataset": primary.dataset, "mode": primary.mode, "metric": [metric] * 2 + ["format"] * 2}
    by_run = pd.DataFrame({**rows, "value": [0.0, value, 0.0, 0.0]})
    found = nothing_measured(study.model_copy(update={"primary": primary}), by_run)
    assert [each.startswith(words) for each in found] == [True] * (words is not None)


def test_runs_that_diverged_are_named_at_the_top_and_are_why_there_is_no_comparison(study, tables, cost):
    tables["paired_differences"]["family"] = "all arms"
    assert "None: the study declares no comparison of two arms." in summary(study, tables, cost)
    text = summary(study.model_copy(update={"left_out": ["high, seed 0, diverged at step 2."]}), tables, cost)
    assert "None can be shown: runs of the declared comparisons are missing" in text
    assert "**Runs diverged, and are left out of all numbers**" in text
    assert text.index("- high, seed 0, diverged at step 2.") < text.index("## Arms")


def test_markdown_is_escaped():
    assert plain("a*b|c<d`[e]") == r"a\*b\|c\<d\`\[e\]"
    assert plain("costs $1,\nor $2") == r"costs \$1, or \$2"
    assert plain("~~old~~ a&lt;b") == r"\~\~old\~\~ a\&lt;b"
    assert plain("_model_ __b__ (_c_)") == r"\_model\_ \_\_b\_\_ (\_c\_)"
    assert plain("my_arm_2, models--Org--my__model, étude_é") == "my_arm_2, models--Org--my__model, étude_é"


def test_files_are_the_same_each_time_and_the_page_is_escaped(study, tables, cost, tmp_path):
    folder, figure = tmp_path / "tables", tmp_path / "primary.png"
    for name, table in tables.items():
        filled = table.reindex(columns=pd.Index(dict.fromkeys([*table.columns, *SCHEMAS[name].names])))
        write_tables([(name, filled)], {name: SCHEMAS[name]}, folder)
    write_csv(cost.reindex(columns=SCHEMAS["cost"].names, fill_value=0.0), folder / "cost.csv")
    figure.write_bytes(b"png")
    files = ["summary.md", "summary.html", "main.md", "main.tex", "main.html", "overview.html"]
    MadeUpStudy(seeds=(0, 1), steps=1, rollouts=4).write(tmp_path)
    written = []
    for _ in range(2):
        main(["--study", str(tmp_path / "study.json"), "--figure", str(figure)])
        written.append({name: (folder / name).read_bytes() for name in files})
    assert written[0] == written[1]
    assert b"&lt;b&gt;" in written[0]["summary.html"]
    assert b"<b>" not in written[0]["summary.html"]


def test_a_study_with_methods_has_the_size_of_its_advantages(study, tables, cost):
    rows = [
        (0.5, 0.4, 0.6, 1.0, 1.0, 1.0),
        (0.9, 0.8, 1.0, 1.8, 1.5, 2.2),
        (0.6, np.nan, np.nan, 1.2, np.nan, np.nan),
        (0.7, 0.6, 0.8, 1.4, 1.2, 1.6),
    ]
    columns = ["estimate", "low", "high", "ratio", "ratio_low", "ratio_high"]
    sizes = pd.DataFrame(rows, columns=columns).assign(arm=study.arm_names)
    assert "Size of the advantages" not in summary(study, tables, cost)
    words = summary(study, {**tables, "advantage_size": sizes}, cost)
    assert "Ratios to correctness_only go from 1.000 (correctness_only) to 1.800 (format_only). Ratio: over" in words
    assert "| format_only | 0.900 | [0.800, 1.000] | 1.800 | [1.500, 2.200] | 2 |" in words
    assert "| correctness_only | 0.500 | [0.400, 0.600] | 1 | – | 1 |" in words
    assert "| length_only | 0.600 | not known | 1.200 | not known | 3 |" in words
    other_seeds = sizes.assign(ratio=[1.0, 0.9, 1.2, np.nan])  # sizes alone would rank format_only first
    words = summary(study, {**tables, "advantage_size": other_seeds}, cost)
    assert "Ratios to correctness_only go from 0.900 (format_only) to 1.200 (length_only)." in words


@pytest.mark.parametrize(
    ("p", "level", "words"),
    [
        (0.04962, 0.05, "0.0496"),
        (0.049998, 0.05, "0.049998"),
        (0.05, 0.05, "0.050"),
        (0.0004, 0.05, "< 0.001"),
        (0.00096, 0.001, "0.00096"),
        (np.nan, 0.05, "no test"),
    ],
)
def test_a_p_value_is_not_rounded_to_the_level(p, level, words):
    assert p_value(p, level) == words


@pytest.mark.parametrize(
    ("arm", "words"),
    [("format_only", "page, but those of claims on these comparisons, ignore"), ("length_only", "page ignore")],
)
def test_claims_on_a_contrast_with_looks_do_not_ignore_them(study, arm, words):
    pair = {"arm": "format_only", "against": study.baseline}
    result = pair | {"estimate": 0.2, "low": 0.0, "high": 0.5, "p": 0.02, "p_holm": 0.04, "boundary": 0.01}
    look = {
        "seeds": 2,
        "date": "2026-01-31T12:00:00Z",
        "contrasts": [result | {"decision": "open"}],
        "error_left": 0.03,
    }
    record = {"looks": [2, 3], "stop": "pocock", "margin": None, "level": 0.05, "question": "q", "evaluation": "e"}
    record |= {"arms": {}, "declared": "2026-01-31T11:00:00Z", "runs_then": 0, "taken": [look]}
    place = {name: getattr(study.primary, name) for name in ("dataset", "mode", "metric")}
    claim = place | {"name": "c", "says": "so", "arm": arm, "against": study.baseline, "direction": "higher"}
    content = study.model_dump(by_alias=True) | {"sequential": record}
    content["claims"] = [claim | {"margin": 0.0, "declared": "2026-01-31T11:00:00Z"}]
    assert f"All other numbers on this {words} that the study has looks." in sequential(StudyFile(**content))[-1]
    before = " ".join(sequential(StudyFile(**content | {"sequential": record | {"taken": []}})))
    assert "No look was taken yet" in before
    assert "repeated confidence interval" not in before
