"""Figures of the cost."""
