"""Columns of the tables of a study."""
