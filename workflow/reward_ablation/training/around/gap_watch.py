"""Stop of a run whose vLLM does not sample from the present weights: its log-probabilities are far from the trainer's.

The trainer (`saving_trainer`) tells it the difference after each generation by vLLM.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reward_ablation.system.errors import StudyError

#: Largest mean absolute difference of log-probabilities, in nats per token, that rounding may explain. Rounding makes
#: some thousandths, and other weights make some tenths.
LARGEST_GAP = 0.1
#: So many generations in a row with a larger gap stop the run. A single batch may hold a few odd completions.
IN_A_ROW = 3

#: Settings by TRL's names. Under None or one of these values, vLLM samples from the distribution that TRL computes.
SAME_DISTRIBUTION: dict[str, tuple] = {
    "top_p": (1.0,),
    "top_k": (0,),
    "min_p": (0.0,),
    "repetition_penalty": (1.0,),
    "vllm_structured_outputs_regex": (),
    "generation_kwargs": ({},),
}


class GapWatch:
    """Stops a run after several generations with a gap, unless the settings have vLLM cut off improbable tokens."""

    def __init__(self, settings: Mapping[str, Any]):
        # Whether a setting sets the distributions apart.
        self.apart = any(settings.get(name) not in (*same, None) for name, same in SAME_DISTRIBUTION.items())
        self.in_a_row = 0  # how many of the last generations had a gap that is too large

    def see(self, mean: float, step: int) -> None:
        """Check the `mean` absolute difference of log-probabilities, in nats per token, of a step's generation."""
        self.in_a_row = 0 if mean <= LARGEST_GAP or self.apart else self.in_a_row + 1
        if self.in_a_row == IN_A_ROW:
            raise StudyError(
                f"launch.vllm: for {IN_A_ROW} generations in a row, up to step {step}, vLLM's log-probabilities were "
                f"more than {LARGEST_GAP} nats per token from the trainer's ({mean:.2g}): vLLM does not sample from "
                "the present weights; see the versions in docs/launch.md, or train without launch.vllm"
            )
