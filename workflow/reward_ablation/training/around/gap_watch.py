"""Stops a run whose vLLM does not sample by the present weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reward_ablation.system.errors import StudyError

#: Mean absolute difference of log-probabilities, in nats a token, that rounding does not explain, and how many
#: generations in a row end a run: one batch may hold a few odd completions.
LARGEST_GAP, IN_A_ROW = 0.1, 3

#: Settings by TRL's names, with the values under which vLLM's distribution is the trainer's.
SAME_DISTRIBUTION: dict[str, tuple] = {
    "top_p": (1.0,),
    "top_k": (0,),
    "min_p": (0.0,),
    "repetition_penalty": (1.0,),
    "vllm_structured_outputs_regex": (),
    "generation_kwargs": ({},),
}


class GapWatch:
    """Stops a run whose rollouts are, again and again, not those of the present weights.

    Parameters
    ----------
    settings : mapping
        Settings of TRL's config. With some of them, vLLM cuts off improbable tokens and TRL does not: the two
        distributions then differ whatever the weights, and no gap stops the run.
    """

    def __init__(self, settings: Mapping[str, Any]):
        self.apart = any(settings.get(name) not in (*same, None) for name, same in SAME_DISTRIBUTION.items())
        self.in_a_row = 0

    def see(self, mean: float, step: int) -> None:
        """Take the gap of a generation: a mean over all tokens of the batch and all processes, in nats.

        Raises
        ------
        StudyError
            The gap was too large for `IN_A_ROW` generations.
        """
        self.in_a_row = 0 if mean <= LARGEST_GAP or self.apart else self.in_a_row + 1
        if self.in_a_row == IN_A_ROW:
            raise StudyError(
                f"launch.vllm: for {IN_A_ROW} generations in a row, up to step {step}, vLLM's log-probabilities were "
                f"more than {LARGEST_GAP} a token from the trainer's ({mean:.2g}): it does not sample by the present "
                "weights; see the versions in docs/launch.md, or train without launch.vllm"
            )
