"""Gradient similarities from sample Gram matrices, and the files of these matrices: NumPy and Arrow, no torch."""
