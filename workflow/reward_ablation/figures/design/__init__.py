"""The figure of `snakemake power`, which is not part of all.pdf."""
