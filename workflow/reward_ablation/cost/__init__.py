"""What the runs of a study cost: hours by their own clocks, and by Slurm's accounting."""
