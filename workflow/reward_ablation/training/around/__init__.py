"""The surroundings of a run's training: launch, attempts, checkpoints and records.

A change of this code is never a reason to train a run again.
"""
