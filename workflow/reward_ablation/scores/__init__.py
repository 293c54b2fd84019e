"""Scores of stored answers by the study's own metrics; nothing is generated.

The rule `score` runs it after an evaluation. A new metric therefore scores the answers that are there.
"""
