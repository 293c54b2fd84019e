"""Gram matrices of completions' gradients: their files, and the gradient similarities that follow; no torch."""
