"""Reward components, and the grading of answers: pure, without torch."""

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
