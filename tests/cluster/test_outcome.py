"""When a job has ended, by what Slurm lists of it from time to time."""

from types import SimpleNamespace

import pytest

from reward_ablation.cluster.outcome import Outcomes
from reward_ablation.cluster.slurm import SlurmJob

PATIENCE = 60.0


def job(state: str, reason: str = "None") -> SlurmJob:
    return SlurmJob("7", "study.train.a", state, reason, "n1", None, None)


@pytest.fixture
def clock():
    return SimpleNamespace(now=100.0)


@pytest.fixture
def outcomes(clock):
    return Outcomes(PATIENCE, lambda: clock.now)


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        *((state, "None") for state in ("RUNNING", "COMPLETING", "SUSPENDED", "REQUEUE_HOLD", "REVOKED")),
        *(("PENDING", reason) for reason in ("Priority", "QOSMaxGRESPerUser", "JobHeldUser", "Dependency")),
    ],
)
def test_a_live_job_is_waited_for_however_long(outcomes, clock, state, reason):
    for _ in range(3):
        assert outcomes.look("7", job(state, reason)) is None
        clock.now += 10 * PATIENCE


@pytest.mark.parametrize(
    ("state", "why", "again"),
    [
        ("COMPLETED", "", True),
        ("FAILED", "failed", True),
        ("TIMEOUT", "time limit", True),
        ("LAUNCH_FAILED", "ended as LAUNCH_FAILED", True),
        ("CANCELLED", "was cancelled", False),  # somebody did not want it
    ],
)
def test_how_a_job_ended_and_whether_it_gets_another_attempt(outcomes, state, why, again):
    ended = outcomes.look("7", job(state))
    assert (ended.state, ended.again) == (state, again)  # the exit status of a job counts only where it FAILED
    assert why in ended.why if why else not ended.why


@pytest.mark.parametrize("state", ["PREEMPTED", "NODE_FAIL"])
def test_a_job_that_slurm_may_start_again_is_given_time_to(outcomes, clock, state):
    assert outcomes.look("7", job(state)) is None
    clock.now += PATIENCE / 2
    assert outcomes.look("7", job("PENDING")) is None
    clock.now += PATIENCE
    assert outcomes.look("7", job(state)) is None, "its time starts anew"
    clock.now += PATIENCE
    ended = outcomes.look("7", job(state))
    assert (ended.again, ended.may_restart) == (True, True)


@pytest.mark.parametrize(
    ("listed", "state", "why", "again"),
    [
        (None, "", "has left Slurm's list", True),
        *(
            (job("PENDING", reason), "PENDING", f"will never start: {reason}; ask for {change}", False)
            for reason, change in (
                ("QOSMaxWallDurationPerJobLimit", "less"),
                ("AssocMaxCpuPerJobLimit", "less"),
                ("PartitionTimeLimit", "less, or for what there is"),
                ("QOSMinCpuNotSatisfied", "more"),
            )
        ),
        (job("PENDING", "launch_failed_requeued_held"), "PENDING", "could not be started", True),
    ],
)
def test_a_job_that_cannot_end_is_not_waited_for_for_ever(outcomes, clock, listed, state, why, again):
    assert outcomes.look("7", listed) is None
    clock.now += PATIENCE
    ended = outcomes.look("7", listed)
    assert (ended.state, ended.again, ended.may_restart) == (state, again, True)
    assert why in ended.why
