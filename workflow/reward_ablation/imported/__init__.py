"""Runs that were trained elsewhere: their files become a results folder of this project."""
