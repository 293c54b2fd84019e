"""How a model is asked: prompts, and draws of tokens. Training and evaluation share these."""
