"""Designs of studies: how many seeds, questions and samples show an effect, and what they cost."""
