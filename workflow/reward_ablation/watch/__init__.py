"""The page of `reward-ablation watch`: states, curves and completions of a study while it trains."""
