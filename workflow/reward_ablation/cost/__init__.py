"""The cost of a study's runs: hours by their own clocks, and by Slurm's accounting."""
