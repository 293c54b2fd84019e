"""A run's results in the file layouts of other systems, for scripts that were written for those systems."""
