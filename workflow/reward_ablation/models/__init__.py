"""The base model and the reward models, which are fetched, checked and loaded; the demo model, which is built here."""
