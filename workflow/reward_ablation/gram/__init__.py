"""From sample Gram matrices to gradient similarities, and the files that keep them: NumPy and Arrow, no torch."""
