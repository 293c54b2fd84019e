"""Share of right answers to single problems over training."""
