"""The design of a study while it runs: which arms need further seeds."""
