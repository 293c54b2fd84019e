"""A table of 2,000 pairs with their verdicts. Code with the same verdicts grades finished runs alike.

Each line of pinned_verdicts.tsv is status, answer, gold. The pairs are golds of MATH and GSM8K (both MIT), restyled
golds, wrong answers, and the adversarial pairs of the tests, with their mirror images.
"""

from pathlib import Path

from reward_ablation.rewards import grade_answers

TABLE = Path(__file__).with_name("pinned_verdicts.tsv")


def test_verdicts_are_as_pinned():
    rows = [line.split("\t") for line in TABLE.read_text(encoding="utf-8").splitlines()]
    _, answers, golds = zip(*rows, strict=True)
    assert len(set(zip(answers, golds, strict=True))) == 2000
    graded = [grade.status for grade in grade_answers(answers, golds)]
    changed = [(row, now) for row, now in zip(rows, graded, strict=True) if row[0] != now]
    assert changed == []
