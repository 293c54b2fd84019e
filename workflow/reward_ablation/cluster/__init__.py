"""The Slurm cluster: its partitions and nodes, the study's jobs there, and the resources that these ask for."""
