"""The training of one run: `core` decides the numbers, `around` starts, saves and records."""
