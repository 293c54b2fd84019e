"""Gram matrices of single completions' gradients, from the training step's own backward pass."""
