"""Finding the answer in a text: the stated rules, and properties that hold for any text."""

import pytest

from reward_ablation.rewards import extract, extract_lenient, grade_answer
from reward_ablation.rewards.grading.extraction import stated_answer
from reward_ablation.system.errors import StudyError


@pytest.mark.parametrize(
    ("answer_format", "text", "answer"),
    [
        ("boxed", r"\fbox{72}", "72"),
        ("boxed", r"\boxed{\frac{1}{\sqrt{2}}}", r"\frac{1}{\sqrt{2}}"),  # nested braces
        ("boxed", r"\boxed{\{1, 2\}}", r"\{1, 2\}"),  # escaped braces are characters
        ("boxed", r"\boxed 2$.", "2"),  # as in MATH train/algebra/24014
        ("boxed", r"\boxed{72", None),  # cut off by the length limit
        ("boxed", r"\boxed{1} and \boxed{72", None),  # an earlier box is no stand-in
        ("boxed", r"\boxed{1} then \boxed{72}. So \boxed{ }", "72"),  # an empty one hides none before it
        ("boxed", r"\boxed{72}, the \boxed answer", "72"),  # a mention without braces
        ("boxed", r"\boxedness{72}", None),  # another command
        ("boxed", r"<think>\boxed{72}</think> done", None),  # a box in the reasoning is no answer
        ("boxed", r"reasoning</think>\boxed{72}", "72"),  # <think> was part of the prompt
        # several boxes that form one answer
        ("boxed", r"$\boxed{1}$ and $\boxed{2}$", "1, 2"),
        ("boxed", r"\boxed{1}/\boxed{2}", "1, 2"),
        ("boxed", r"\[\boxed{(1, 2)}, \quad \text{and} \quad \boxed{(2, 1)}\]", "(1, 2), (2, 1)"),
        ("boxed", r"$y_1 = \boxed{x+1}$ and $y_2 = \boxed{x-1}$", "x+1, x-1"),
        ("boxed", "\\boxed{1}\n\n\\boxed{2}", "2"),  # another paragraph
        ("boxed", r"\boxed{0}, " + r"\boxed{1}, " * 20, "1"),  # at most twenty are looked at
        ("hash", "#### 1\n#### 72 eggs\nDone.", "72 eggs"),  # the last marker counts, to the end of the line
        ("hash", "##### 72", None),  # five are a heading
        ("hash", "72 #### ", None),
        ("final", "  Final:72", "72"),
        ("final", "The Final: 72", None),  # not at the start of a line
        ("tag", "<answer>1</answer><answer>\n72\n</answer>", "72"),
        ("tag", "<answer>1</answer><answer>72", None),  # the last one was cut off
        ("tag", "</answer>72<answer> <ANSWER>72</ANSWER>", None),
        ("last_number", "It costs $1,234.50.", "$1,234.50"),
        ("last_number", "10-5", "5"),  # a sign after a digit is a subtraction
        ("last_number", "It is 1 1/2 miles", "1 1/2"),
        ("last_number", r"It is \frac{3}{4}.", r"\frac{3}{4}"),
        ("last_number", "about 5%", "5%"),  # never 5
        ("last_number", "1,234.5E-3%", "1,234.5E-3%"),
        ("last_number", "12 345.67", "12 345.67"),
        ("last_number", "It is 1.234,5", "1.234,5"),
        ("last_number", "It is 1.500.000.", "1.500.000"),
        ("last_number", ".5", ".5"),
        ("last_number", "It falls to --33", "--33"),  # two signs: the grader refuses them
        ("last_number", "the total--33 eggs", "33"),  # a dash
        ("last_number", "code \u03bb2", None),  # ChatGPT on MathVista: "different values of \u03bb2"
        ("last_number", "答案是３．５。", "３．５"),  # no space before it is needed
    ],
)
def test_extract(answer_format, text, answer):
    assert extract(text, answer_format) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        # the first of boxed, hash, tag and final
        (r"#### 1 \boxed{2}", "2"),
        ("<answer>1</answer>\n#### 2", "2"),
        ("Final: 1\n<answer>2</answer>", "2"),
        # the last formula or number
        (r"so it is \(x^2\), as was to be shown", "x^2"),
        (r"so \[ x + 1 \]", "x + 1"),
        (r"so $$x$$ is $$x + 1$$", "x + 1"),
        ("$x + 1$ for all 3 of them", "3"),  # a number after the formula
        ("16 is the least such $n$", "16"),  # a letter alone is no answer where there is a number
        ("no answer", None),
        # what a sentence states
        ("**Final Answer:** 42 (in 3 steps)", "42"),
        ("The answer is 42 because 6 is 42 / 7", "42"),
        ("The answer to your question is 51.05. Ask me 3 more.", "51.05"),  # Bard on MathVista
        ("The answer is 41. No, the answer is 42, not 3.", "42"),  # the last statement
        ("The answer is --33, by step 3", "--33"),  # no sign, and not 33
        ("答案是42（见步骤3）", "42"),
        ("The correct answer is **(B) no**, 3 times.", "(B) no"),  # Bard on MathVista
        ("The answer is B (10).", "B"),  # Claude on MathVista
        ("The answer is A train of 3 cars", "A train of 3 cars"),  # an article
        ("The answer is no real solution.\nSee step 3.", "no real solution"),
        ("Answer: Sure. We add 3 and 4 to get 7.", "7"),  # a solution follows the colon
        ("The answer is (B) or (C).", "(B) or (C)"),  # guesses stay guesses
        # no clear statement: the last number
        ("Final Answer: The volume of $AB$ is 120.", "120"),
        ("the answer isn't known: 3", "3"),
    ],
)
def test_extract_lenient(text, answer):
    assert extract_lenient(text) == answer


@pytest.mark.parametrize("said", ["41 or 42", "41 | 42", "42 squared", "41或42", "not 42"])
def test_what_a_sentence_states_is_no_guess(said):
    for gold in ("41", "42"):
        assert grade_answer(stated_answer(f"The answer is {said}"), gold).status != "correct"


@pytest.mark.parametrize("end", ["x", "1"])
@pytest.mark.parametrize("unit", ["answer is ", "answer to a ", r"answer is $ \a ", "答案是1和", "- ", "1,111"])
def test_prose_that_never_ends_has_an_end(unit, end):
    """Patterns that backtrack would look at these texts for hours."""
    text = "answer is 1, " + unit * (50_000 // len(unit)) + end
    for answer in (extract_lenient(text), extract(text, "last_number")):
        assert answer is None or answer == answer.strip()


def test_unknown_format_is_refused_in_one_line():
    with pytest.raises(StudyError, match="unknown format 'boxd'; formats here: boxed, hash"):
        extract("72", "boxd")
