"""Whether an answer is right: found in the text, spelled one way, compared exactly, and by a parser last."""

from reward_ablation.rewards.grading.extraction import extract, extract_lenient
from reward_ablation.rewards.grading.grader import Grade, grade, grade_answer, grade_answers, grade_batch
from reward_ablation.rewards.grading.settling import Status

__all__ = ["Grade", "Status", "extract", "extract_lenient", "grade", "grade_answer", "grade_answers", "grade_batch"]
