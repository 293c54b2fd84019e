"""A gold in the place of an answer must be graded correct against itself."""

import json
import subprocess
import sys

import pytest

from reward_ablation.data.problems import check_golds, why_ungradable
from reward_ablation.system.errors import StudyError

UNREADABLE = "unreadable: braces, nesting, length or control characters"


@pytest.mark.parametrize(
    "gold",
    [
        "72",
        r"\frac{1}{2}",
        "[0, 1)",  # brackets need not balance, braces must
        r"\{\}",  # the empty set
        "\n\\begin{pmatrix} 0 & 3 \\\\ 0 & -1 \\end{pmatrix}\n",  # as one of MATH's
        "<",  # a sign may be what was asked for
        r"\boxed{5}",  # grading takes it out of its box
        "9^{9^{9}}",  # too costly to compare, but for equal strings
        "two hundred words " * 50,
    ],
)
def test_a_gold_that_can_be_answered(gold):
    assert why_ungradable(gold) is None


@pytest.mark.parametrize(
    ("gold", "why"),
    [
        (r"\frac{1}{2", UNREADABLE),
        ("a\x00b", UNREADABLE),
        ("\udc80", UNREADABLE),  # broken UTF-8
        ("<think>", UNREADABLE),
        (r"\$", "punctuation alone"),
        ("\u00b0", "nothing in it to compare"),  # a unit alone
        # a solution in place of its answer: no completion would ever equal it
        ("48 / 2 = 24\n48 + 24 = 72\n#### 72", "has #### inside"),
        ("48 + 24 = 72\nFinal: 72", "has Final: inside"),
    ],
)
def test_a_gold_that_cannot(gold, why):
    assert why_ungradable(gold) == why
    with pytest.raises(StudyError, match="set: 1 gold does not grade itself as correct: a: "):
        check_golds([{"id": "b", "answer": "1"}, {"id": "a", "answer": gold}], "set")


def test_planning_reads_no_grader_and_golds_that_pass_start_no_parser():
    """7,500 golds of MATH are checked in a fraction of a second: equal strings need no sympy."""
    golds = [
        r"\frac{\sqrt{3}}{2}",
        "x^2 + 2x + 1",
        r"(-\infty, 0) \cup (1, 2]",
        r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}",
    ]
    program = (
        "import json, sys\nimport reward_ablation.study.study\n"
        "from reward_ablation.data.problems import why_ungradable\n"
        "assert 'reward_ablation.rewards.grading' not in sys.modules\n"
        "assert not any(why_ungradable(gold) for gold in json.loads(sys.argv[1]))\n"
        "from reward_ablation.rewards.grading.math_worker import math_worker\n"
        "assert math_worker.pid is None\n"
        "assert not {'sympy', 'math_verify', 'torch'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program, json.dumps(golds)], check=True)
