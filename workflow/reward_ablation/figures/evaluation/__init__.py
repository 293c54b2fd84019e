"""Figures of the evaluation."""
