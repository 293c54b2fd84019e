"""Generation of rollouts by transformers or by vLLM, each rollout with random numbers of its own.

The core's `trainer` uses one of the two modules in a run, as the run's spec says.
"""
