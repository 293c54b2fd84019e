"""The Slurm cluster: what it offers, what it runs of a study, and what the study asks of it."""
