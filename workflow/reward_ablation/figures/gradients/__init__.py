"""Figures of the components' gradients."""
