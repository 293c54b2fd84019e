"""A surface over the weights: the primary metric between the arms, its check, and the next arm."""
