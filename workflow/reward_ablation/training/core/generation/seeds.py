"""The seed of each rollout: the same in whatever process, batch or attempt of a run it is generated."""

from __future__ import annotations

from reward_ablation.sampling.draws import stream_seed


def rollout_seeds(run_seed: int, step: int, problem_ids: list[str], rollouts: list[int]) -> list[int]:
    """Seeds in [0, 2^63), one a rollout: those of one problem differ, and so do those of one problem at two steps.

    Parameters
    ----------
    run_seed : int
    step : int
        The optimiser step that the rollouts are generated for, the first one 1.
    problem_ids : list of str
    rollouts : list of int
        Their numbers within their groups.
    """
    return [
        stream_seed(run_seed, step, problem, rollout) for problem, rollout in zip(problem_ids, rollouts, strict=True)
    ]
