"""Intervals, tests and effects: arrays in, estimates out."""
