"""Every rollout has a seed of its own, and keeps it."""

from reward_ablation.training.core.trainer import rollout_seeds


def test_run_step_problem_and_rollout_each_change_the_seed():
    seeds = [
        seed
        for run in (0, 1)
        for step in (1, 2, 12)
        for seed in rollout_seeds(run, step, ["a", "a", "b", "2/a"], [0, 1, 0, 0])
    ]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_a_seed_is_the_same_wherever_its_rollout_is():
    together = rollout_seeds(0, 3, ["a", "a", "b", "b"], [0, 1, 0, 1])
    assert rollout_seeds(0, 3, ["b", "b"], [0, 1]) == together[2:]
    # Written down, since a change would change every rollout of every run.
    assert together[0] == 3942757702785726818
