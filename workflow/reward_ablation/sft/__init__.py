"""The supervised start: the base model learns demonstrations before all runs."""
