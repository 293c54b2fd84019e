"""A surface of the primary metric over the weights: its fit, its check, and the next arm that it suggests."""
