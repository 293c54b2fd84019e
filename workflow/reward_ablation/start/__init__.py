"""What Snakemake does at its start: what is to be trained and why, what is no longer needed, what must hold first."""
