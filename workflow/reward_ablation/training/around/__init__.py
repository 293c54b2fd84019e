"""The surroundings of a run's training: launch, attempts, checkpoints and records.

The command `python -m reward_ablation.training` calls them, and they call `core`. A change of this code is never a
reason to train a run again.
"""
