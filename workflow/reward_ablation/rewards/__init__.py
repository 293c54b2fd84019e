"""Reward components, and the grading of answers. Nothing here needs torch.

Evaluation takes the grader's names from here, and so can a user's own reward function.
"""

from reward_ablation.rewards.grading import (
    Grade,
    extract,
    extract_lenient,
    grade,
    grade_answer,
    grade_answers,
    grade_batch,
)

__all__ = ["Grade", "extract", "extract_lenient", "grade", "grade_answer", "grade_answers", "grade_batch"]
