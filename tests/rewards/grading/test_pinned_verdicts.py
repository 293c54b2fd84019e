"""A table of pairs with their verdicts. Code with the same verdicts grades finished runs alike.

Each line of pinned_verdicts.tsv is status, answer, gold, and sometimes the reason. The verdicts follow from arithmetic
and from the conventions of docs/rewards.md, not from what the grader says. Rows that take the grader through the same
lines and patterns as others, to the same status, are left out.
"""

from pathlib import Path

from reward_ablation.rewards import grade_answers

TABLE = Path(__file__).with_name("pinned_verdicts.tsv")


def test_verdicts_are_as_pinned():
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t")[:3] for line in lines if not line.startswith("# ")]
    _, answers, golds = zip(*rows, strict=True)
    assert len(set(zip(answers, golds, strict=True))) == len(rows)
    graded = [grade.status for grade in grade_answers(answers, golds)]
    changed = [(row, now) for row, now in zip(rows, graded, strict=True) if row[0] != now]
    assert changed == []
