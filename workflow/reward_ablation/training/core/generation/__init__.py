"""Generation of rollouts by transformers or by vLLM, each rollout with random numbers of its own."""
