"""A sequential study on the CPU: two starts, of which the second trains no arm whose contrast was decided."""

import json

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


def described(study):
    return json.loads((study.results / "study.json").read_text())


def seeds_by_arm(study):
    seeds = {}
    for record in sorted(study.results.glob("runs/*/seed*/run.json")):
        seeds.setdefault(record.parts[-3].rpartition("-")[0], []).append(record.parts[-2])
    return seeds


def test_a_decided_contrast_gets_no_further_seeds(tmp_path):
    study = Study(tmp_path, CONFIG)
    (tmp_path / "own.py").write_text(OWN)
    plan = study.command("plan", "--quick").stdout
    assert "next is look 1 of 2, with 3 seeds; open: idle against still, moved against still" in " ".join(plan.split())

    # What was trained before a look is interrupted counts as no look.
    interrupted = study.snakemake("--", *(f"results/tiny/{run}" for run in first_run(study)))
    assert interrupted.returncode == 0, interrupted.stdout + interrupted.stderr
    assert described(study)["sequential"]["taken"] == []

    first = study.snakemake("--", "results/tiny/tables/summary.md")
    assert first.returncode == 0, first.stdout + first.stderr
    three = ["seed0", "seed1", "seed2"]
    assert seeds_by_arm(study) == {"still": three, "idle": three, "moved": three}
    (look,) = described(study)["sequential"]["taken"]
    assert {each["arm"]: each["decision"] for each in look["contrasts"]} == {"idle": "equivalent", "moved": "open"}
    words = (study.results / "tables" / "summary.md").read_text()
    assert "**Not finished:** the next start runs the next look." in words
    trained = {record: record.stat().st_mtime_ns for record in study.results.glob("runs/*/seed*/run.json")}

    # The same look is not judged again.
    text = (study.results / "study.json").read_bytes()
    peek = study.snakemake("--config", "seeds=[0]", "--", "results/tiny/tables/summary.md")
    assert peek.returncode == 0, peek.stdout + peek.stderr
    assert "**Not the sequential answers:" in (study.results / "tables" / "summary.md").read_text()
    assert described(study)["sequential"]["taken"] == [look]

    status = " ".join(study.command("status").stdout.split())
    assert "next is look 2 of 2, with 4 seeds; open: moved against still; idle against still: equivalent" in status
    second = study.snakemake("--", "results/tiny/tables/summary.md", "results/tiny/figures/all.pdf")
    assert second.returncode == 0, second.stdout + second.stderr
    assert seeds_by_arm(study) == {"still": [*three, "seed3"], "idle": three, "moved": [*three, "seed3"]}
    assert {record: record.stat().st_mtime_ns for record in trained} == trained
    again, last = described(study)["sequential"]["taken"]
    assert (again, json.loads(text)["sequential"]["taken"]) == (look, [look])
    assert [each["arm"] for each in last["contrasts"]] == ["moved"]
    assert last["contrasts"][0]["decision"] in ("undecided", "different", "equivalent")
    differences = pd.read_csv(study.results / "tables" / "paired_differences.csv").query("family == 'primary'")
    assert dict(zip(differences["arm"], differences["seeds"], strict=True)) == {"idle": 3, "moved": 4}
    assert differences["decision"].tolist() == ["equivalent", last["contrasts"][0]["decision"]]
    assert study.planned("results/tiny/tables/summary.md", "results/tiny/figures/all.pdf") == {}


def first_run(study):
    """The record of one run, below the study's folder."""
    planned = study.snakemake("--dry-run", "--", "results/tiny/tables/summary.md")
    lines = (planned.stdout + planned.stderr).splitlines()
    records = [word.rstrip(",") for line in lines for word in line.split() if word.rstrip(",").endswith("run.json")]
    return [sorted(records)[0].removeprefix("results/tiny/")]
