"""What a user's code can change for its whole process, so that the training would go on otherwise than configured."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from reward_ablation.system.errors import StudyError


def _state() -> dict[str, object]:
    """The state of this process, by the call that tells it. Without torch, what torch starts with."""
    torch = sys.modules.get("torch")  # this package imports no torch
    return {
        "torch.is_grad_enabled()": torch.is_grad_enabled() if torch else True,
        "torch.get_default_dtype()": str(torch.get_default_dtype()) if torch else "torch.float32",
        "os.getcwd()": os.getcwd(),
    }


@contextmanager
def refusing_changes(where: str) -> Iterator[None]:
    """Refuse code that leaves the state of the process changed. `where` names the code, for the message."""
    before = _state()
    yield
    for call, now in _state().items():
        if now != before[call]:
            raise StudyError(
                f"{where} changes {call} from {before[call]} to {now}, with which the training would go on; put it "
                "back, as `with torch.no_grad():` and `contextlib.chdir` do"
            )
