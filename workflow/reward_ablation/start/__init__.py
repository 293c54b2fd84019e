"""Snakemake's start: checks, the plan of what is trained and why, and the commands such as `status` and `prune`."""
