"""The table of claims and its page, on made-up studies with known effects."""

import re

import numpy as np
import pandas as pd
import pytest

from analysis.made_up import MadeUpStudy, made_tables, write_tables
from reward_ablation.analysis.claims import p_of_ends, verdict
from reward_ablation.analysis.claims_text import cautions, seeds_of_difference
from reward_ablation.analysis.reading import read_table
from reward_ablation.analysis.statistics.estimates import distribution, holm, intervals, p_values, resampled_seeds
from reward_ablation.analysis.study_file import StudyFile, read_study
from reward_ablation.report.summary import claims as claims_section
from reward_ablation.study.claims import Claim
from reward_ablation.system.files import write_json

HOSTILE = "<script>alert(1)</script> | ${x} [a](javascript:b) `touch PWNED` \u202egnp. =1+1"
SAMPLED = {"dataset": "gsm8k_test", "mode": "sampled", "declared": "2026-01-31T12:00:00Z"}


def claim(name: str, arm: str, direction: str, **changes) -> dict:
    """A claim as study.json has it; against the arm with the weight on correctness."""
    written = {"name": name, "says": f"claim {name}", "metric": "format", "arm": arm, "margin": 0.0}
    return {**written, "against": "correctness_only", "direction": direction, **SAMPLED} | changes


CLAIMS = [
    claim("format_rises", "format_only", "higher", says=HOSTILE, source=HOSTILE),
    claim("format_falls", "format_only", "lower", runs_then=4),
    claim("no_tokens", "format_only", "same", metric="tokens", margin=0.001),
    claim("beats_base", "format_only", "higher", against="base", margin=0.05),
    claim("greedy", "equal_weights", "higher", mode="greedy", metric="accuracy_strict", runs_then=None),
]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("study")
    study = MadeUpStudy(seeds=(0, 1, 2), steps=1, rollouts=4, claims=CLAIMS, datasets={"gsm8k_test": 200})
    study.write(root)
    plan = study.plan()
    plan["withdrawn_claims"] = [claim("gone", "length_only", "higher", says=f"Gone: {HOSTILE}")]
    write_json(plan, root / "study.json")
    made_tables(root, "evaluation", "claims")
    return root


@pytest.fixture(scope="module")
def table(root):
    return read_table(root / "tables" / "claims.parquet").set_index("claim")


def test_the_difference_is_that_of_paired_differences(root, table):
    labels = ["arm", "baseline", "dataset", "mode", "metric"]
    differences = pd.read_parquet(root / "tables" / "paired_differences.parquet").set_index(labels).sort_index()
    claims = table[table["against"] != "base"].reset_index().rename(columns={"against": "baseline"}).set_index(labels)
    same = differences.loc[claims.index]
    columns = ["estimate", "low", "high", "seeds", "questions", "provenance"]
    assert claims[columns].values.tolist() == same[columns].values.tolist()
    of_0 = (claims["direction"] != "same").tolist()
    assert claims["p"][of_0].tolist() == same["p"][of_0].tolist()
    by_arm = pd.read_parquet(root / "tables" / "evaluation_by_arm.parquet")
    means = by_arm.query("mode == 'sampled' and metric == 'format'").set_index("arm")["estimate"]
    row = table.loc["beats_base"]  # paired by question
    assert row["estimate"] == pytest.approx(means["format_only"] - means["base"])
    assert row["low"] < row["estimate"] < row["high"]
    assert (row["seeds"], row["questions"]) == (3, 200)
    assert pd.isna(row["provenance"])


def test_verdicts_and_holm_over_all_claims(root, table):
    lines = (root / "tables" / "claims.csv").read_text().splitlines()
    assert [line.rpartition(",")[2].strip(chr(34)) for line in lines] == ["runs_then", "0", "4", "0", "0", ""]
    assert table["p_holm"].tolist() == holm(table["p"].to_numpy()).tolist()
    assert (table["p_holm"] > table["p"]).any()
    assert table["verdict"].to_dict() == {
        "format_rises": "supported",
        "format_falls": "contradicted",
        "no_tokens": "undecided",
        "beats_base": "supported",
        "greedy": "contradicted",  # its weight on correctness is a third
    }


def test_the_page_has_a_card_a_claim_and_runs_nothing_of_a_text(root):
    words = (root / "tables" / "claims.html").read_text()
    headings = re.findall(r"<h2>(.*?)</h2>", words)
    assert headings[:2] == ["format_rises: supported", "format_falls: contradicted"]
    assert "<script" not in words
    assert words.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 3  # text, source, the claim that was taken out
    assert "\u202e" not in words
    assert "Declared when 4 runs had begun" in words
    assert "not known whether before the first run" in words
    assert "Taken out after there were runs: gone, declared 2026-01-31T12:00:00Z" in words
    assert "5 claims: 2 supported, 2 contradicted, 1 undecided; Holm p over all claims must be below 0.05." in words


def test_the_summary_has_a_card_a_claim(root):
    study = read_study(root / "study.json")
    parts = claims_section(study, read_table(root / "tables" / "claims.parquet"))
    assert parts[0] == "## Claims"
    first, second = parts[2:4]
    assert first.startswith(r"- **format_rises: supported** (row 1). \<script>alert(1)\</script> \| \${x} \[a\]")
    assert "\u202e" not in "".join(parts)
    assert re.search(r"measured: 0\.\d{3} \[.*\], Holm p \S.* \(3 seeds, 200 questions\)$", first, re.MULTILINE)
    assert "claimed: format adherence on gsm8k_test (sampled), format_only minus correctness_only: below 0" in second
    assert second.endswith("Declared when 4 runs had begun: what these runs may have suggested, they cannot confirm.")
    assert parts[-1].startswith("- Taken out after there were runs: gone, ")


def test_one_seed_is_judged_over_questions_and_a_study_without_claims_has_no_section(tmp_path):
    one = [claim("format_rises", "format_only", "higher"), claim("base", "format_only", "higher", against="base")]
    MadeUpStudy(seeds=(3,), steps=1, rollouts=4, claims=one).write(tmp_path)
    made_tables(tmp_path, "evaluation")
    table = made_tables(tmp_path, "claims")["claims"]
    assert table["seeds"].tolist() == [1, 1]
    assert table[["low", "high", "p"]].notna().all().all()
    without = MadeUpStudy(seeds=(3,), steps=1, rollouts=4).plan()
    write_json(without, tmp_path / "study.json")
    assert made_tables(tmp_path, "claims")["claims"].empty
    assert claims_section(StudyFile.model_validate(without), None) == []


def test_a_claim_of_a_sequential_study_has_the_interval_and_the_p_value_of_the_last_look(tmp_path):
    claims = [
        claim("turned", "correctness_only", "lower", against="format_only"),
        claim("margin", "format_only", "higher", margin=0.1),
        claim("other", "length_only", "higher"),
        claim("other_metric", "format_only", "higher", metric="truncated"),
    ]
    study = MadeUpStudy(seeds=(0, 1, 2), steps=1, rollouts=4, claims=claims, datasets={"gsm8k_test": 60})
    study.write(tmp_path)
    write_tables(tmp_path, tmp_path / "plain", ["evaluation", "claims"])
    plain = read_table(tmp_path / "plain" / "claims.parquet").set_index("claim")
    pair = {"arm": "format_only", "against": "correctness_only"}
    result = pair | {"estimate": 0.25, "low": -0.01, "high": 0.5, "p": 0.02, "p_holm": 0.04}
    result |= {"boundary": 0.01, "decision": "open"}
    look = {"seeds": 2, "date": "2026-01-31T12:00:00Z", "contrasts": [result], "error_left": 0.03}
    plan = {"looks": [2, 3, 5], "stop": "pocock", "margin": None, "level": 0.05, "question": "q", "evaluation": "e"}
    primary = {"dataset": "gsm8k_test", "mode": "sampled", "metric": "format", "contrasts": [pair], "digest": ""}
    record = {**plan, "arms": {}, "declared": "2026-01-31T11:00:00Z", "runs_then": 0, "taken": [look]}
    content = study.plan() | {"primary": primary, "sequential": record}
    write_json(study.plan() | {"runs": [run for run in content["runs"] if run["seed"] < 2]}, tmp_path / "study.json")
    write_tables(tmp_path, tmp_path / "of_look", ["evaluation", "claims"])
    of_look = read_table(tmp_path / "of_look" / "claims.parquet").set_index("claim")
    write_json(content, tmp_path / "study.json")
    tables = made_tables(tmp_path, "evaluation", "claims")
    table = tables["claims"].set_index("claim")
    columns = ["estimate", "low", "high", "seeds"]
    assert table.loc["turned", [*columns, "p", "verdict"]].tolist() == [-0.25, -0.5, 0.01, 2, 0.04, "undecided"]
    same = tables["paired_differences"].query("family == 'primary'").iloc[0]
    assert table.loc["margin", columns].tolist() == same[columns].tolist() == [0.25, -0.01, 0.5, 2]
    assert table.loc["margin", "p"] == pytest.approx(min(1, 3 * of_look.loc["margin", "p"]))
    assert of_look.loc["margin", "p"] != pytest.approx(plain.loc["margin", "p"])
    others = ["other", "other_metric"]
    pd.testing.assert_frame_equal(table.loc[others, [*columns, "p"]], plain.loc[others, [*columns, "p"]])
    assert table["p_holm"].tolist() == holm(table["p"].to_numpy()).tolist()
    written = read_study(tmp_path / "study.json")
    noted = [row.Index for row in table.itertuples() if "not corrected for them" in cautions(row, written)]
    assert noted == others
    write_json(content | {"sequential": {**record, "in_force": False}}, tmp_path / "study.json")
    listed = made_tables(tmp_path, "claims")["claims"].set_index("claim")
    pd.testing.assert_frame_equal(listed[[*columns, "p"]], plain[[*columns, "p"]])


def test_the_table_says_which_of_two_intervals_a_claim_has(tmp_path):
    """Each metric has the shorter one, of the four seeds that both arms have or of six against four."""
    made = [claim(metric, "format_only", "higher", metric=metric) for metric in ("format", "tokens", "accuracy_strict")]
    study = MadeUpStudy(seeds=(*range(6),), steps=1, rollouts=4, claims=made, datasets={"gsm8k_test": 40})
    study.write(tmp_path)
    plan = study.plan()
    plan["runs"] = [run for run in plan["runs"] if run["arm"] != "format_only" or run["seed"] < 4]
    write_json(plan, tmp_path / "study.json")
    tables = made_tables(tmp_path, "evaluation", "claims")
    table, by_run = tables["claims"], tables["evaluation_by_run"].query("mode == 'sampled'")
    for row in table.itertuples():
        values = by_run[by_run["metric"] == row.metric].pivot_table(index="seed", columns="arm", values="value")
        own, other = values["format_only"], values["correctness_only"]
        of_pairs, of_all = (own - other).mean(), own.mean() - other.mean()
        assert of_pairs != pytest.approx(of_all)
        assert row.estimate == pytest.approx(of_pairs if row.paired else of_all)
        words = "4 shared seeds" if row.paired else "4 seeds against 6"
        assert seeds_of_difference(row, read_study(tmp_path / "study.json")) == words
    assert table["paired"].nunique() == 2


def claim_of(direction: str, margin: float = 0.0) -> Claim:
    names = {"name": "c", "says": "so", "metric": "format", "arm": "a", "against": "b"}
    return Claim(**names, direction=direction, margin=margin, dataset="test", mode="greedy")


@pytest.mark.parametrize(
    ("direction", "margin", "low", "high", "found"),
    [
        ("higher", 0.0, -0.01, 0.20, "undecided"),
        ("higher", 0.05, 0.06, 0.20, "supported"),
        ("higher", 0.05, 0.01, 0.04, "contradicted"),  # above 0, and by less than the margin
        ("higher", 0.05, 0.05, 0.20, "undecided"),  # reaches the margin
        ("lower", 0.05, -0.20, -0.06, "supported"),
        ("lower", 0.05, -0.04, 0.10, "contradicted"),
        ("same", 0.05, 0.01, 0.04, "supported"),  # a difference that is too small to matter
        ("same", 0.05, -0.06, 0.04, "undecided"),
        ("same", 0.05, -0.20, -0.06, "contradicted"),
        ("higher", 0.0, float("nan"), float("nan"), "undecided"),
    ],
)
def test_a_verdict_follows_from_where_the_interval_lies(direction, margin, low, high, found):
    assert verdict(claim_of(direction, margin), low, high, p_holm=0.01, confidence=0.95) == found


def test_nothing_is_decided_that_does_not_hold_for_all_claims_together():
    assert verdict(claim_of("higher"), 0.01, 0.2, p_holm=0.05, confidence=0.95) == "undecided"


@pytest.mark.parametrize(("direction", "margin"), [("higher", 0.06), ("lower", 0.05), ("same", 0.18)])
def test_an_interval_of_one_minus_p_just_reaches_the_nearer_end(direction, margin):
    values = np.clip(np.random.default_rng(5).normal(0.1, 0.4, (1, 3, 200)), -1, 1)
    noisy = distribution(values, resampled_seeds(values, "test", 2000), "test", (np.array([-1.0]), np.array([1.0])))
    p = p_of_ends(claim_of(direction, margin), noisy, 0)
    assert 1e-9 < p < 1
    low, high = (float(end[0]) for end in intervals(noisy, 1 - p))
    ends = {"higher": [margin], "lower": [-margin], "same": [-margin, margin]}[direction]
    assert min(abs(reached - end) for reached in (low, high) for end in ends) < 1e-6
    assert p_of_ends(claim_of("lower"), noisy, 0) == p_values(noisy)[0]
