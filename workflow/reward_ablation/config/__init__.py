"""The sections of a config, its designs, and TRL's settings: what a user may write, and what a mistake is told."""
