"""Figures of a study. Each figure has one function, which takes tables and returns a matplotlib Figure."""
