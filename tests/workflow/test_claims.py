"""Claims of a finished study: added, judged and changed without training anything."""

import re

import pandas as pd
import pytest

from .conftest import jobs_of

pytestmark = pytest.mark.slow

HOSTILE = "shorter</td><script>alert(1)</script> $(touch PWNED) {run} {{x}} <results> \"quoted\" 'too'"
CLAIMS = {
    "shorter": {"says": HOSTILE, "source": HOSTILE, "metric": "tokens", "arm": "mixed", "direction": "lower"},
    "as_base": {
        **{"says": "as right as before", "metric": "accuracy_strict", "arm": "mixed", "against": "base"},
        **{"direction": "same", "margin": 0.9, "mode": "sampled"},
    },
}
TARGET = "results/tiny/tables/summary.md"
#: What may run for the summary where claims change: all that reads study.json. The summary shows a figure.
READERS = r"describe|tables_\w+|figures|summary"


@pytest.mark.usefixtures("_blank_figures")
def test_claims_are_judged_on_a_finished_study(finished, tmp_path):
    study = finished.copied(tmp_path / finished.folder.name)
    tables = study.results / "tables"
    before, described = {path.name: path.read_bytes() for path in tables.iterdir()}, study.described()

    study.config["claims"] = CLAIMS
    words = study.make(TARGET)
    assert "train" not in jobs_of(words)
    assert "claims: shorter, as_base; declared" in words
    assert "after 4 runs were there" in words

    judged = pd.read_csv(tables / "claims.csv").set_index("claim")
    assert judged["runs_then"].tolist() == [4, 4]
    assert judged["says"].tolist() == [HOSTILE, "as right as before"]
    pairs = pd.read_csv(tables / "paired_differences.csv")
    pair = pairs.query("arm == 'mixed' and metric == 'tokens' and mode == 'greedy'").iloc[0]
    numbers = ["estimate", "low", "high", "p"]
    assert judged.loc["shorter", numbers].tolist() == pair[numbers].tolist()

    # The other tables have the same bytes.
    differing = {name.partition(".")[0] for name, content in before.items() if (tables / name).read_bytes() != content}
    assert differing <= {"summary", "overview", "cost", "runs"}
    assert "Declared when 4 runs had begun" in (tables / "summary.md").read_text()
    assert study.described().keys() - described.keys() == {"claims"}
    for page in ("claims.html", "summary.html"):
        assert "<script" not in (tables / page).read_text()
    assert not list(tmp_path.rglob("PWNED"))
    assert "tables_claims" not in study.planned(TARGET)

    study.config["claims"] = {"as_base": CLAIMS["as_base"] | {"margin": 0.8}}
    again = study.planned(TARGET)
    assert [rule for rule in again if not re.fullmatch(READERS, rule)] == []
    assert again["tables_claims"] == 1
    assert "claims: as_base; to be declared at the next start, after 4 runs were there" in study.plan()
