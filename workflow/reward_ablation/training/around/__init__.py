"""What surrounds the training of a run: launch, attempts, checkpoints and records. Never a reason to train again."""
