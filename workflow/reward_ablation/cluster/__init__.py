"""The Slurm cluster: its offers, the study's jobs there, and the resources that the study asks for."""
