"""Claims of a finished study: added, judged and changed without training anything."""

import json
import re
import shutil

import pandas as pd
import pytest

from .conftest import Study, jobs_of

pytestmark = pytest.mark.slow

HOSTILE = "shorter</td><script>alert(1)</script> $(touch PWNED) {run} {{x}} <results> \"quoted\" 'too'"
CLAIMS = {
    "shorter": {"says": HOSTILE, "source": HOSTILE, "metric": "tokens", "arm": "mixed", "direction": "lower"},
    "as_base": {
        **{"says": "as right as before", "metric": "accuracy_strict", "arm": "mixed", "against": "base"},
        **{"direction": "same", "margin": 0.9, "mode": "sampled"},
    },
}
#: What may run for the summary where claims change: all that reads study.json. The summary shows a figure.
READERS = r"describe|tables_\w+|figures|summary|total"


@pytest.mark.usefixtures("_blank_figures")
def test_claims_are_judged_on_a_finished_study(finished, tmp_path):
    folder = tmp_path / finished.folder.name
    shutil.copytree(finished.folder, folder)
    study = Study(folder, finished.config)
    tables, target = study.results / "tables", "results/tiny/tables/summary.md"
    before = {path.name: path.read_bytes() for path in tables.iterdir()}
    described = json.loads((study.results / "study.json").read_text())

    study.config["claims"] = CLAIMS
    result = study.snakemake("--", target)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "train" not in jobs_of(result.stdout + result.stderr)
    assert "claims: shorter, as_base; declared" in result.stdout + result.stderr
    assert "after 4 runs were there" in result.stdout + result.stderr

    judged = pd.read_csv(tables / "claims.csv").set_index("claim")
    assert judged["runs_then"].tolist() == [4, 4]
    assert judged["says"].tolist() == [HOSTILE, "as right as before"]
    pair = pd.read_csv(tables / "paired_differences.csv").query(
        "arm == 'mixed' and metric == 'tokens' and mode == 'greedy'"
    )
    assert (
        judged.loc["shorter", ["estimate", "low", "high", "p"]].tolist()
        == pair[["estimate", "low", "high", "p"]].iloc[0].tolist()
    )

    # Nothing else changes: the other tables have the same bytes, and the summary has one section more. The page
    # beside them shows figures, which are blank here.
    differing = [name for name, content in before.items() if (tables / name).read_bytes() != content]
    assert not [name for name in differing if not name.startswith(("summary.", "overview.", "cost.", "runs."))]
    words = (tables / "summary.md").read_text()
    section = re.search(r"## Claims\n\n.*?(?=The last column is)", words, re.DOTALL)[0]
    assert "Declared when 4 runs had begun" in section
    costs = r"^(Cost|\| .*hours).*$"
    without = re.sub(costs, "", words.replace(section, ""), flags=re.MULTILINE)
    assert without == re.sub(costs, "", before["summary.md"].decode(), flags=re.MULTILINE)
    assert set(json.loads((study.results / "study.json").read_text())) - {*described} == {"claims"}
    for page in ("claims.html", "summary.html"):
        assert "<script" not in (tables / page).read_text()
    assert not list(tmp_path.rglob("PWNED"))
    assert "tables_claims" not in study.planned(target)

    study.config["claims"] = {"as_base": CLAIMS["as_base"] | {"margin": 0.8}}
    again = study.planned(target)
    assert [rule for rule in again if not re.fullmatch(READERS, rule)] == []
    assert again["tables_claims"] == 1
    plan = study.command("plan", "--quick")
    assert "claims: as_base; to be declared at the next start, after 4 runs were there" in plan.stdout + plan.stderr

    study.config["claims"]["as_base"]["arm"] = "mixd"
    refused = study.snakemake("--dry-run")
    assert refused.returncode == 1
    assert "config.yaml: claims.as_base.arm: unknown arm 'mixd'; arms here: length, mixed" in refused.stderr
    assert "Traceback" not in refused.stderr
