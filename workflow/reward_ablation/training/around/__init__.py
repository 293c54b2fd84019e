"""The surroundings of a run's training, which call `core`. Their changes are never a reason to train a run again."""
