"""Prompts, tokenizers and draws of tokens, which training and evaluation share."""
