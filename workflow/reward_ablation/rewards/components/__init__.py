"""Reward components: one file each, named as its function.

A component has TRL's reward signature, ``(completions, **columns) -> list[float | None]``: one raw
score a completion, without a weight; None where no score can be given. The columns it reads are its
positional arguments; its parameters, set in the config, are keyword-only, and their type hints are
what the config is checked against.
"""

from reward_ablation.rewards.completions import completion_texts

__all__ = ["completion_texts"]
