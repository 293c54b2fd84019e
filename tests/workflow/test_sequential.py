"""A sequential study on the CPU: two starts, of which the second trains no arm whose contrast was decided."""

import re

import pandas as pd
import pytest

from .conftest import TINY, Study

pytestmark = [pytest.mark.slow, pytest.mark.long]

#: `still` and `idle` do not learn: their answers are those of the base model, and so equal with any number of seeds. An
#: arm with equal seeds is taken to vary as the mean of all arms: 48 questions, whose mean varies little with the seed.
CONFIG = TINY | {
    "seeds": {"looks": [3, 4]},
    "data": TINY["data"] | {"evaluation": {"test": {"source": "word_problems", "count": 48, "split": "test"}}},
    "arms": {
        "design": "list",
        "arms": {
            "still": {"weights": {"length": 1}, "training": {"learning_rate": 0.0}},
            "idle": {"weights": {"format": 1}, "training": {"learning_rate": 0.0}},
            "moved": {"weights": {"length": 1}, "training": {"learning_rate": 1.0e-2}},
        },
    },
    "evaluation": TINY["evaluation"]
    | {"samples": 0, "metrics": {"parity": {"function": "own.py:parity", "range": [0, 1]}}},
    "primary": {"metric": "parity"},
    # Only equal answers are known to be within this margin.
    "statistics": {"equivalence_margin": 0.15},
}

#: Equal answers have equal scores, and other answers have scores by chance: a contrast that stays open.
OWN = """
from zlib import crc32

def parity(completions, **columns):
    return [float(crc32((text + name).encode()) & 1) for text, name in zip(completions, columns["problem_id"])]
"""


SUMMARY = "results/tiny/tables/summary.md"


def seeds_of(study):
    """Numbers of finished seeds, by arm."""
    arms = [record.parts[-3].rpartition("-")[0] for record in study.results.glob("runs/*/seed*/run.json")]
    return {arm: arms.count(arm) for arm in arms}


def test_a_decided_contrast_gets_no_further_seeds(tmp_path):
    study = Study(tmp_path, CONFIG)
    (tmp_path / "own.py").write_text(OWN)
    open_now = "next is look 1 of 2, with 3 seeds; open: idle against still, moved against still"
    assert open_now in " ".join(study.plan().split())

    # What was trained before a look is interrupted counts as no look.
    study.make(re.findall(r"results/tiny/runs/\S+/run.json", study.make("--dry-run", SUMMARY))[0])
    assert study.described()["sequential"]["taken"] == []

    study.make(SUMMARY)
    assert seeds_of(study) == {"still": 3, "idle": 3, "moved": 3}
    (look,) = study.described()["sequential"]["taken"]
    assert {each["arm"]: each["decision"] for each in look["contrasts"]} == {"idle": "equivalent", "moved": "open"}
    assert "**Not finished:** the next start runs the next look." in (study.folder / SUMMARY).read_text()
    trained = {record: record.stat().st_mtime_ns for record in study.results.glob("runs/*/seed*/run.json")}

    # The same look is not judged again.
    study.make(SUMMARY, "--config", "seeds=[0]")
    assert "**Not the sequential answers:" in (study.folder / SUMMARY).read_text()
    assert study.described()["sequential"]["taken"] == [look]

    status = " ".join(study.told("status").split())
    assert "next is look 2 of 2, with 4 seeds; open: moved against still; idle against still: equivalent" in status
    study.make(SUMMARY, "results/tiny/figures/all.pdf")
    assert seeds_of(study) == {"still": 4, "idle": 3, "moved": 4}
    assert {record: record.stat().st_mtime_ns for record in trained} == trained
    again, last = study.described()["sequential"]["taken"]
    assert again == look
    assert [each["arm"] for each in last["contrasts"]] == ["moved"]
    assert last["contrasts"][0]["decision"] in ("undecided", "different", "equivalent")
    differences = pd.read_csv(study.results / "tables" / "paired_differences.csv").query("family == 'primary'")
    assert dict(zip(differences["arm"], differences["seeds"], strict=True)) == {"idle": 3, "moved": 4}
    assert differences["decision"].tolist() == ["equivalent", last["contrasts"][0]["decision"]]
    assert study.planned(SUMMARY, "results/tiny/figures/all.pdf") == {}
