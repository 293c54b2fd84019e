"""How rollouts are generated: each with random numbers of its own, by transformers or by vLLM."""
