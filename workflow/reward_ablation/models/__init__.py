"""The base model and the reward models, which are fetched, checked and loaded; the demo model, which is built here.

The rules `fetch` and `fetch_reward_model` run it; training, the supervised start, evaluation and scoring use its parts.
"""
