"""Word problems: answers are right, splits are disjoint, and every machine makes the same problems."""

import re
from operator import add, mul, sub

import pytest

from reward_ablation.config.sections.data import WORD_PROBLEMS
from reward_ablation.data.word_problems import TEMPLATES, generate, problems
from reward_ablation.system.errors import StudyError

SPLITS = ("warm_start", "train", "test")
CALCULATION = re.compile(r"(\d+) ([-+*]) (\d+) = (\d+)")


@pytest.fixture(scope="module")
def every_problem():
    return {split: list(problems(0, split)) for split in SPLITS}


#: Worked by hand, one of each template.
FIRST = {
    "David buys 4 boxes of 9 stamps each. How many stamps are there?": "The boxes hold 4 * 9 = 36 stamps.\n#### 36",
    "Ben buys 3 boxes of 5 shells each and finds 5 more. How many shells are there?": (
        "The boxes hold 3 * 5 = 15 shells.\nWith the others it is 15 + 5 = 20 shells.\n#### 20"
    ),
    "Emma has 9 books, gets 9 more and gives away 5. How many books are left?": (
        "First there are 9 + 9 = 18 books.\nThen there are 18 - 5 = 13 books.\n#### 13"
    ),
    "Clara has 5 pens and a friend has 7 times as many. How many pens do both have?": (
        "The friend has 5 * 7 = 35 pens.\nBoth have 35 + 5 = 40 pens.\n#### 40"
    ),
}


def test_first_problems_stay_what_they_are():
    rows = generate(4, seed=0, split="train")
    assert {row["question"]: row["solution"] for row in rows} == FIRST


@pytest.mark.parametrize("split", SPLITS)
def test_answers_follow_from_the_questions_numbers(split):
    for row in generate(2000, seed=1, split=split):
        *steps, last = row["solution"].split("\n")
        assert last == f"#### {row['answer']}"
        known = {int(number) for number in re.findall(r"\d+", row["question"])}
        assert all(2 <= number <= 9 for number in known)
        for step in steps:
            left, sign, right, result = CALCULATION.search(step).groups()
            assert {int(left), int(right)} <= known
            assert {"+": add, "-": sub, "*": mul}[sign](int(left), int(right)) == int(result)
            known.add(int(result))
        assert result == row["answer"]
        assert int(result) >= 0


def test_fewer_problems_are_the_first_of_more_and_another_seed_gives_others():
    some = generate(10, seed=3, split="test")
    assert some == generate(30, seed=3, split="test")[:10]
    assert some != generate(10, seed=4, split="test")
    with pytest.raises(StudyError, match=r"^word_problems: count: the test split has \d+ problems, not 999999; .*$"):
        generate(999_999, seed=0, split="test")


def test_templates_take_turns_and_the_config_knows_how_many_problems_there_are(every_problem):
    templates = [problem.template for problem in every_problem["test"][:400]]
    assert all(templates.count(template) == 100 for template in TEMPLATES)
    assert {split: len(every_problem[split]) for split in WORD_PROBLEMS} == WORD_PROBLEMS


def test_no_question_is_in_two_splits_or_twice_in_one_and_no_calculation_of_train_in_test(every_problem):
    questions = [problem.question for split in SPLITS for problem in every_problem[split]]
    assert len(questions) == len(set(questions))
    train, test = (
        {(problem.template, *problem.operands.values()) for problem in every_problem[split]}
        for split in ("train", "test")
    )
    assert train.isdisjoint(test)
