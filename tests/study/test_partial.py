"""A part of a study: its description, and the message on what is missing."""

import pytest

from reward_ablation.study.partial import missing_lines, part_of, without_diverged
from reward_ablation.system.errors import StudyError

CONTENT = {
    "name": "study",
    "arms": [{"name": name} for name in ("full", "less", "control")],
    "runs": [
        {"arm": arm, "seed": seed, "folder": f"runs/{arm}/seed{seed}"}
        for arm, seeds in (("full", (0, 1)), ("less", (0, 1, 2)), ("control", (0,)))
        for seed in seeds
    ],
    "seeds": [0, 1, 2],
    "datasets": ["one", "two"],
    "answers": {"one": "1", "two": "2"},
    "scores": {},
    "questions": {"one": "q1", "two": "q2"},
    "baseline": "full",
    "control": "control",
    "primary": {"dataset": "one", "contrasts": [{"arm": arm, "against": "full"} for arm in ("less", "control")]},
    "claims": [],
}


def part(*runs, datasets=("one", "two"), **changed):
    whole = CONTENT | changed
    return whole, part_of(whole, [f"runs/{run}" for run in runs], datasets)


def test_the_whole_lacks_nothing():
    whole, same = part(*(run["folder"].removeprefix("runs/") for run in CONTENT["runs"]))
    assert same == whole | {"withdrawn_claims": []}
    assert missing_lines(whole, same, []) == []
    assert without_diverged(CONTENT) is CONTENT


def test_arms_may_have_different_seeds():
    whole, found = part("full/seed0", "less/seed2", datasets=["two"])
    assert [arm["name"] for arm in found["arms"]] == ["full", "less"]
    assert found["seeds"] == [0, 2]
    assert (found["datasets"], found["answers"], found["questions"]) == (["two"], {"two": "2"}, {"two": "q2"})
    assert found["control"] is None
    assert found["primary"] == CONTENT["primary"] | {"contrasts": [{"arm": "less", "against": "full"}]}
    assert missing_lines(whole, found, ["less/seed1"]) == [
        "Arms without a finished run: control.",
        "Arms without all of their seeds, with the seeds that are missing: full (1), less (0, 1).",
        "Trained, and not evaluated on all evaluation sets shown: less/seed1.",
        "Evaluation sets without answers of enough models: one.",
        "Differences to the control control cannot be shown.",
        "The primary question is about one, which is not shown.",
    ]


def test_without_its_baseline():
    whole, found = part("less/seed0", "control/seed0", claims=[{"name": "shorter"}])
    assert found["baseline"] == "less"
    assert found["primary"]["contrasts"] == found["claims"] == []
    told = missing_lines(whole, found, [])[2:]
    assert [line.partition(":")[0] for line in told] == [
        "Differences to the baseline full cannot be shown; less stands in for it.",
        "Primary contrasts that cannot be shown",
        "Claims are judged when the study is finished.",
    ]


def test_runs_that_diverged_are_named_and_left_out():
    claims = [
        {"name": "better", "arm": "less", "against": "base"},
        {"name": "by chance", "arm": "control", "against": "full"},
    ]
    diverged = [{"folder": "runs/control/seed0", "step": 2}, {"folder": "runs/less/seed1", "step": 7}]
    with pytest.raises(StudyError, match="all runs of this study diverged"):
        without_diverged(CONTENT | {"diverged": [{"folder": run["folder"], "step": 1} for run in CONTENT["runs"]]})
    found = without_diverged(CONTENT | {"diverged": diverged, "claims": claims})
    left = {"runs/full/seed0", "runs/full/seed1", "runs/less/seed0", "runs/less/seed2"}
    assert {run["folder"] for run in found["runs"]} == left
    assert found["primary"]["contrasts"] == [{"arm": "less", "against": "full"}]
    assert found["claims"] == claims[:1]
    assert found["left_out"] == [
        "less, seed 1, diverged at step 7.",
        "control, seed 0, diverged at step 2.",
        "Arms without a finished run: control.",
        "Arms without all of their seeds, with the seeds that are missing: less (1).",
        "Differences to the control control cannot be shown.",
        "Primary contrasts that cannot be shown: control against full. The p-values of the others are corrected for "
        "those shown alone.",
        "Claims that cannot be judged: by chance.",
    ]
