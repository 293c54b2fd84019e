"""From a config to the resolved study: its arms and runs, their specs, keys and digests of code."""
