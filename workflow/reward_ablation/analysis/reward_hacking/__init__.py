"""Signs that training raised a reward at the cost of accuracy."""
