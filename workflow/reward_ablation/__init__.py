"""Reproducible reward-ablation studies of language models trained with GRPO.

Snakemake's rules run its packages as commands, and the command `reward-ablation` runs `start`.
"""
