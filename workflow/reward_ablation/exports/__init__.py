"""Results of a run in the file layouts of other systems, for scripts that were written for these systems."""
