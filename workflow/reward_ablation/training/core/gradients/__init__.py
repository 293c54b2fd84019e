"""Gram matrices of single completions' gradients, from the training step's own backward pass.

The core's `trainer` uses this package at each step, and measures at some. Words of this package and of `gram`: A
*block* is one micro-batch of one process. A *family* is one backward pass over a block, for one placement (the tokens
that an advantage acts on) and one way to clip, or for the KL term. A *row* is the gradient of one completion in one
family, at advantage 1. A *vector* is the gradient of a component, or of the KL term: a weighted sum of rows. It has one
of two definitions: `alone`, as if the component were the only one, at weight 1, or `share`, its part of the gradient
that the run trains on. *Folding* keeps a large parameter's gradient as fewer sums, for products between blocks.
"""
