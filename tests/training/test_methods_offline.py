"""Predicted steps of a method, against runs that were trained with the method."""

import numpy as np
import pandas as pd
import pytest

from reward_ablation.analysis.gradients.methods_offline import method_of_arm, methods_offline, read_history, replay

from .test_combination import STATES, combine

#: Settings of some arms, and a run that TRL combines.
ARMS = {
    "static": {"components": combine("upgrad")["components"]},
    **{method: combine(method, **STATES[method]) for method in ("upgrad", "lagrangian")},
}


@pytest.mark.parametrize("arm", ARMS)
def test_the_offline_step_of_a_runs_method_is_the_step_that_was_trained(trained, arm):
    run = trained(**ARMS[arm])
    history = read_history(run)
    own = methods_offline(run, {"own": method_of_arm(history.spec)}).estimates.set_index("quantity")["estimate"]
    assert own["cosine"] == pytest.approx(1.0, abs=1e-3)
    assert own["length"] == pytest.approx(1.0, abs=1e-3)
    assert own["gain"].to_numpy() == pytest.approx(np.zeros(3), abs=1e-3)


@pytest.mark.parametrize("arm", [arm for arm in ARMS if arm != "static"])
def test_weights_that_a_run_logged_follow_from_its_stored_files(trained, arm):
    run = trained(**ARMS[arm])
    history = read_history(run)
    replayed = replay(history, method_of_arm(history.spec))
    logged = pd.read_parquet(run / "weights.parquet")
    offline = [replayed.weights[row.step][history.components.index(row.component)] for row in logged.itertuples()]
    np.testing.assert_allclose(offline, logged["weight"], rtol=1e-4)
    assert logged.groupby("component")["weight"].nunique().max() > 1


def test_the_first_step_of_another_arm_is_known_from_one_arm(trained):
    """All arms of a seed have the same completions at their first step."""
    static, other = (trained(**ARMS[arm]) for arm in ("static", "lagrangian"))
    first = replay(read_history(static), method_of_arm(read_history(other).spec)).shares[1]
    rollouts = pd.read_parquet(other / "rollouts.parquet").query("step == 1")
    stored = rollouts.sort_values(["problem_id", "rollout"])[[f"advantage_{n}" for n in read_history(other).components]]
    np.testing.assert_allclose(first, stored, atol=1e-5)
    assert np.abs(first).max() > 0.5
