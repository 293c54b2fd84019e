"""The base model and the reward models: fetched, checked and loaded; and the demo model, which is built here."""
