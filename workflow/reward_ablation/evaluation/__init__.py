"""Evaluation of a model: generate answers and grade them, one row per question and sample.

The rules `evaluate_base` and `evaluate` run it, as `python -m reward_ablation.evaluation`.
"""
