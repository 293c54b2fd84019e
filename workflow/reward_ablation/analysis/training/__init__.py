"""What happened to rewards and lengths in training."""
