"""Gram matrices of single completions' gradients, from the training step's own backward pass.

`seeds`: what the loss asks of each token. `layers`, `lm_head`: backward passes that see one completion
at a time. `recorder`: where they leave what they see. `projection`: a few numbers for a gradient.
"""
