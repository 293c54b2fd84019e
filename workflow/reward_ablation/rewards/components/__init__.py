"""Reward components: one file each, named after its function.

A component has TRL's reward signature, ``(completions, **columns) -> list[float | None]``. It gives one raw score per
completion, without a weight, or None where no score can be given. Its positional arguments are columns. Its
keyword-only arguments are parameters: the config sets them, and they are checked against their type hints. rldynamics,
simple_grpo, the CS 674 lab and the GRPO guide are systems whose rewards are repeated here (docs/coming-from).

`rewards.load` imports a component where a config names it. Training calls it on each batch, or on whole
groups if it compares completions. The rule `score` calls it on stored answers where it is a metric; a component that
needs token ids is no metric, because stored answers have none. A component is a file of its own, so that its change
trains only the runs that use it again.

Columns
-------
completions : list of str or of messages
answer : list of str
    The golds. A component that grades answers scores None where the grader has no verdict (status error).
completion_ids : list of lists of int
    Token ids of each completion, without padding.
problem_id : list of str
    Id of each completion's problem.
"""

from reward_ablation.rewards.completions import completion_texts

__all__ = ["completion_texts"]
