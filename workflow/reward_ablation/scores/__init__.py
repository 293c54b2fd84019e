"""Scores of stored answers by the study's own metrics; nothing is generated."""
