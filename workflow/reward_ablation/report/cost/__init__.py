"""The cost of a study's runs in hours: by the runs' own clocks, by their Slurm jobs, and by Slurm's accounting."""
