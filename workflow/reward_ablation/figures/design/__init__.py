"""Figures of designs: what `snakemake power` draws; no part of all.pdf."""
