"""The training of one run: `core` decides the numbers, `around` starts, saves and records.

The rule `train` runs it, as `python -m reward_ablation.training`, once for each arm and seed.
"""
