"""The figure of `reward-ablation power`, which is not part of all.pdf."""
