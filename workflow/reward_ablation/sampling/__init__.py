"""Prompts, tokenizers and draws of tokens, which training and evaluation share.

It imports neither of the two. A change here can change completions, so it trains and evaluates again.
"""
