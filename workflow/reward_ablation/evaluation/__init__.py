"""Evaluation of a model: generate answers and grade them, one row per question and sample."""
