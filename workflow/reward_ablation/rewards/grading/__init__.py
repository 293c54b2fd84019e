"""Whether an answer is right: it is found in the text, brought to one spelling, and compared exactly or by a parser.

Most components that grade answers, evaluation and the check of a data set's golds ask this one grader, and so agree on
what is right. `boxed_answer` and evaluation's second opinion compare strings, by `math_paper`.
"""

from reward_ablation.rewards.grading.comparison import Status
from reward_ablation.rewards.grading.extraction import extract, extract_lenient
from reward_ablation.rewards.grading.grader import Grade, grade, grade_answer, grade_answers, grade_batch

__all__ = ["Grade", "Status", "extract", "extract_lenient", "grade", "grade_answer", "grade_answers", "grade_batch"]
