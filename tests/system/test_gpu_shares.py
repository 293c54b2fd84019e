"""Which processes share a GPU: real processes and real locks on a machine whose nvidia-smi is a stand-in."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager, suppress

import pytest

from reward_ablation.system.locks import Held, take
from stand_in_gpus import Machine

CLAIM = """
import os, subprocess, sys, time
from reward_ablation.system.gpus import claim_gpus
locks = claim_gpus({count}, "train", share={share})
print(os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
"""
SLEEP = "time.sleep(120)"
HALF, THIRD, QUARTER, EIGHTH = 1 / 2, 1 / 3, 1 / 4, 1 / 8


@pytest.fixture
def machine(tmp_path):
    """Makes a machine with so many GPUs."""
    made = []

    def make(gpus: int) -> Machine:
        made.append(Machine(tmp_path / f"machine{len(made)}", gpus))
        return made[-1]

    yield make
    for each in made:
        each.clear()


def start(machine, share, code=SLEEP, count=1, **environment):
    return subprocess.Popen(
        [sys.executable, "-c", CLAIM.format(count=count, share=share) + code],
        env=machine.environment(**environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@contextmanager
def started(machine, share, code=SLEEP, count=1, **environment):
    """A process that claims a share; killed in the end."""
    with start(machine, share, code, count, **environment) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture
def claims(machine):
    """On a machine of so many GPUs, `claim(share)` gives a process and the GPU that it got."""
    with ExitStack() as running:

        def on(gpus):
            here = machine(gpus)

            def claim(share, **more):
                process = running.enter_context(started(here, share, **more))
                return process, process.stdout.readline().strip()

            return here, claim

        yield on


def waits(process) -> str:
    """The line of a process that waits."""
    line = process.stderr.readline()
    assert line.startswith("train: waiting for "), line
    return line


@pytest.mark.parametrize(
    "shares",
    [
        [HALF] * 2,
        [THIRD] * 3,
        [EIGHTH] * 8,
        [HALF, QUARTER, QUARTER],  # of two studies
        [QUARTER, QUARTER, HALF],
        [HALF, THIRD, EIGHTH],  # 23/24
    ],
)
def test_shares_are_on_one_gpu_until_it_is_full_and_the_next_is_on_another(claims, shares):
    here, claim = claims(2)
    assert {claim(share)[1] for share in shares} == {"0"}
    assert claim(HALF)[1] == "1"
    assert here.calls == len(shares) + 1


def test_a_full_gpu_is_waited_for_and_a_killed_sharer_makes_room(claims):
    here, claim = claims(1)
    first, _ = claim(HALF)
    second, _ = claim(QUARTER)
    with started(here, HALF, "") as third:
        told = waits(third)
        assert told.startswith("train: waiting for 0.5 of a GPU; GPU 0 is held by process ")
        assert all(f"process {process.pid} on " in told for process in (first, second))
        first.kill()
        assert third.communicate(timeout=60) == ("0\n", "")


def test_a_whole_gpu_waits_for_all_sharers_and_sharers_for_a_whole_gpu(claims):
    here, claim = claims(1)
    sharers = [claim(HALF)[0] for _ in range(2)]
    with started(here, 1.0) as whole:
        waits(whole)
        sharers[0].kill()
        with pytest.raises(subprocess.TimeoutExpired):
            whole.wait(timeout=4)  # looks every 2 s at most
        sharers[1].kill()
        assert whole.stdout.readline() == "0\n"
        with started(here, EIGHTH, "") as sharer:
            assert f"process {whole.pid} on " in waits(sharer)
            whole.kill()
            assert sharer.communicate(timeout=60)[0] == "0\n"


def test_whole_gpus_stay_free_for_those_who_need_one(claims):
    _, claim = claims(3)
    assert claim(HALF)[1] == "0"
    assert claim(1.0, count=1)[1] == "1"
    assert claim(QUARTER)[1] == "0"
    assert claim(1.0)[1] == "2"


def test_the_fullest_gpu_that_has_room_is_taken(claims):
    _, claim = claims(2)
    first, _ = claim(HALF)
    assert [claim(HALF)[1], claim(QUARTER)[1]] == ["0", "1"]
    first.kill()
    first.wait()
    assert claim(QUARTER)[1] == "0"  # of which a half is in use, and of the other GPU a quarter
    assert claim(HALF)[1] == "1"


def test_nobody_joins_a_run_of_several_processes_which_share_its_lock(claims):
    """As an older version's: a launcher and its processes hold the GPU's lock together."""
    here, claim = claims(1)
    launcher, _ = claim(1.0, code="[lock.share() for lock in locks]; print('shared', flush=True); " + SLEEP)
    assert launcher.stdout.readline() == "shared\n"
    with started(here, HALF, "") as sharer:
        assert f"GPU 0 is held by process {launcher.pid} on " in waits(sharer)
        launcher.kill()
        assert sharer.communicate(timeout=60)[0] == "0\n"


def test_an_older_version_that_knows_of_no_shares_waits_for_sharers(claims):
    here, claim = claims(1)
    sharer, _ = claim(HALF)
    with pytest.raises(Held, match=f"process {sharer.pid} on "):
        take(here.locks[0])
    sharer.kill()
    sharer.wait()
    take(here.locks[0]).release()


def test_a_sharers_children_do_not_keep_its_share(claims):
    here, claim = claims(1)
    sharer, _ = claim(HALF, code="subprocess.Popen(['sleep', '120']); os.fork() or time.sleep(120); " + SLEEP)
    claim(HALF)
    with started(here, HALF, "") as third:
        waits(third)
        sharer.kill()
        assert third.communicate(timeout=60)[0] == "0\n"


#: A file says how much of a GPU a process uses; all of a GPU's files never say more than one GPU.
USE = """
from fractions import Fraction
from pathlib import Path
names, share = os.environ["CUDA_VISIBLE_DEVICES"].split(","), Fraction({share}).limit_denominator(8)
for name in names:
    Path("{folder}", f"{{name}}-{{os.getpid()}}-{{share.numerator}}-{{share.denominator}}").touch()
for _ in range(20):
    for name in names:
        used = [file.name.split("-")[2:] for file in Path("{folder}").glob(f"{{name}}-*")]
        assert sum(Fraction(int(one), int(other)) for one, other in used) <= 1, used
    time.sleep(0.02)
for file in Path("{folder}").glob(f"*-{{os.getpid()}}-*"):
    file.unlink()
"""


def test_no_gpu_is_ever_more_than_full_and_all_get_their_turn(machine, tmp_path):
    """Whole GPUs, two of them for one run, and shares of several studies, started at once."""
    here = machine(2)
    asked = [(1, HALF)] * 4 + [(1, THIRD)] * 3 + [(1, EIGHTH)] * 3 + [(1, 1.0)] * 2 + [(2, 1.0)]
    folder = tmp_path / "used"
    folder.mkdir()
    begun = [start(here, share, USE.format(folder=folder, share=share), count) for count, share in asked]
    ended = [(*process.communicate(timeout=240), process.returncode) for process in begun]
    assert [status for *_, status in ended] == [0] * len(asked), ended


def test_in_a_slurm_job_slurm_counts_shards_and_nothing_is_claimed(claims):
    """The one GPU that the job sees has other jobs' shards, too; even more than a GPU would hold waits for nobody."""
    _, claim = claims(2)
    job = {"SLURM_JOB_ID": "7", "CUDA_VISIBLE_DEVICES": "1"}
    assert [claim(HALF, **job)[1] for _ in range(3)] == ["1"] * 3


def test_shares_in_an_allocation_of_several_gpus_are_claimed(claims):
    here, claim = claims(2)
    job = {"SLURM_JOB_ID": here.uuids[0], "CUDA_VISIBLE_DEVICES": "0,1"}
    assert [claim(HALF, **job)[1] for _ in range(3)] == ["0", "0", "1"]
    for name in ("0", "1"):
        lock = here.lock(f"slurm-{here.uuids[0]}-{name}")
        for file in lock.parent.glob(f"{lock.name}*"):
            file.unlink()
