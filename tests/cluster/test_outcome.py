import pytest

from reward_ablation.cluster.outcome import Outcomes
from reward_ablation.cluster.slurm import SlurmJob

PATIENCE = 60.0


def job(state: str, reason: str = "None") -> SlurmJob:
    return SlurmJob("7", "study.train.a", state, reason, "n1", None, None)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def outcomes(clock):
    return Outcomes(PATIENCE, clock)


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "COMPLETING", "SUSPENDED", "REQUEUE_HOLD", "CONFIGURING"])
def test_a_live_job_is_waited_for_however_long(outcomes, clock, state):
    for _ in range(3):
        assert outcomes.look("7", job(state)) is None
        clock.now += 10 * PATIENCE


def test_a_completed_job_is_done(outcomes):
    ended = outcomes.look("7", job("COMPLETED"))
    assert ended.state == "COMPLETED"
    assert not ended.why


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ("FAILED", "failed"),
        ("TIMEOUT", "time limit"),
        ("OUT_OF_MEMORY", "more main memory"),
        ("DEADLINE", "deadline"),
        ("LAUNCH_FAILED", "LAUNCH_FAILED"),
    ],
)
def test_a_job_that_failed_gets_another_attempt(outcomes, state, why):
    ended = outcomes.look("7", job(state))
    assert ended.state == state  # the exit status of a job counts only where the state is FAILED
    assert ended.again
    assert why in ended.why


def test_a_job_that_somebody_cancelled_gets_none(outcomes):
    assert not outcomes.look("7", job("CANCELLED")).again


@pytest.mark.parametrize("state", ["PREEMPTED", "NODE_FAIL", "BOOT_FAIL"])
def test_a_job_that_slurm_may_start_again_is_given_time_to(outcomes, clock, state):
    assert outcomes.look("7", job(state)) is None
    clock.now += PATIENCE / 2
    assert outcomes.look("7", job("PENDING")) is None
    clock.now += PATIENCE
    assert outcomes.look("7", job(state)) is None, "its time starts anew"
    clock.now += PATIENCE
    ended = outcomes.look("7", job(state))
    assert ended.again
    assert ended.may_restart


def test_a_job_that_left_the_list_is_not_waited_for_for_ever(outcomes, clock):
    assert outcomes.look("7", None) is None
    clock.now += PATIENCE
    ended = outcomes.look("7", None)
    assert ended.may_restart
    assert ended.state == ""


@pytest.mark.parametrize(
    "reason", ["QOSMaxWallDurationPerJobLimit", "AssocMaxCpuPerJobLimit", "PartitionTimeLimit", "BadConstraints"]
)
def test_a_job_that_asks_for_more_than_it_can_ever_get_is_not_waited_for(outcomes, clock, reason):
    assert outcomes.look("7", job("PENDING", reason)) is None
    clock.now += PATIENCE
    ended = outcomes.look("7", job("PENDING", reason))
    assert reason in ended.why
    assert not ended.again
    assert ended.may_restart


@pytest.mark.parametrize(
    "reason", ["Priority", "Resources", "QOSMaxGRESPerUser", "JobHeldUser", "BeginTime", "Dependency"]
)
def test_a_job_that_waits_its_turn_is(outcomes, clock, reason):
    assert outcomes.look("7", job("PENDING", reason)) is None
    clock.now += 100 * PATIENCE
    assert outcomes.look("7", job("PENDING", reason)) is None


@pytest.mark.parametrize("reason", ["launch failed requeued held", "launch_failed_requeued_held"])
def test_a_job_that_a_node_could_not_start_is_submitted_again(outcomes, clock, reason):
    held = job("PENDING", reason)
    assert outcomes.look("7", held) is None
    clock.now += PATIENCE
    assert outcomes.look("7", held).again
