"""Verifiable instructions (Zhou et al. 2023, arXiv 2311.07911). Each check is a pure function and takes linear time."""
