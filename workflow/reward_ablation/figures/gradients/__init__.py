"""Figures of the gradients of the components."""
