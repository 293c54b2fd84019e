"""Instructions whose following a program can verify (Zhou et al. 2023, arXiv 2311.07911): pure, each in linear time."""
