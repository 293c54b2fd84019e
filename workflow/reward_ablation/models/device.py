"""The GPU of this machine: its kind, as torch names it, and its name.

Training, evaluation and the rule `score` choose their device by the kind; records of hardware have the name. It imports
torch, which looks for GPUs: where a process must claim its GPU first, it imports this module afterwards.
"""

from __future__ import annotations

import torch


def gpu_kind() -> str | None:
    """`cuda`, or `mps` for Apple's GPU; None if torch sees no GPU."""
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else None


def gpu_name() -> str:
    """Name of the GPU that this process uses."""
    return torch.cuda.get_device_name() if gpu_kind() == "cuda" else "Apple GPU (MPS)"
