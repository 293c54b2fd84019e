"""Reproducible reward-ablation studies of language models trained with GRPO."""
