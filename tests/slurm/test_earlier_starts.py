"""What an earlier start left in Slurm, and what Slurm does late, on a real cluster."""

from __future__ import annotations

import os
import shutil
import signal

import pytest

from .cluster import Cluster, wait_until
from .studies import ClusterStudy, put_before

pytestmark = [pytest.mark.slow, pytest.mark.long]

#: `squeue` that lists cancelled jobs as if a process that does not end kept them, while there is a file `stuck`.
STUCK = """#!/bin/sh
if [ -e {folder}/stuck ]; then {program} "$@" | sed s/CANCELLED/COMPLETING/; else exec {program} "$@"; fi
"""

#: `sbatch` whose first job Slurm takes late, when the answer has been given up. Then there is no place for a second.
LATE = """#!/bin/sh
case "$*" in *--test-only*) exec {program} "$@" ;; esac
if mkdir {folder}/first 2>/dev/null; then
    cat > {folder}/script
    (sleep 2; {program} "$@" < {folder}/script >{folder}/accepted) >/dev/null 2>&1 &
    echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation" >&2
    exit 1
fi
if mkdir {folder}/second 2>/dev/null; then
    while [ ! -s {folder}/accepted ]; do sleep 0.2; done
    echo "sbatch: error: AssocMaxSubmitJobLimit" >&2
    echo "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy" >&2
    exit 1
fi
exec {program} "$@"
"""


def test_an_evaluation_of_a_run_that_is_about_to_be_trained_again_is_refused(study: ClusterStudy, cluster: Cluster):
    study.hold_evaluations()
    study.site["bundle"] = "run"
    targets = study.targets()
    study.site["bundle"] = None
    start = study.start(*targets)
    wait_until("both evaluations", lambda: len(cluster.live(f"{study.prefix}.evaluate.")) == 2, 200)
    os.killpg(start.pid, signal.SIGKILL)
    start.wait()
    [run] = study.results.glob("runs/one-*/seed0")
    shutil.rmtree(run)
    number = next(job.id for job in cluster.jobs() if f"{study.prefix}.evaluate.one" in job.name)
    status, told = study.run(*targets)
    assert status == 1
    assert f"error: Slurm job {number} of an earlier start still works on evaluate one-" in told
    assert f"with files that this start makes again (train one-{run.parent.name[4:]}/seed0)" in told
    cluster.run("scancel", number)
    study.release()
    status, told = study.run(*targets, log="again.log")
    assert status == 0, told
    assert told.count("submitted as") == 2, "the training of one run, and its evaluation"


def test_a_job_that_does_not_end_holds_up_its_own_run_alone(study: ClusterStudy, undisturbed: ClusterStudy):
    put_before(study, "squeue", STUCK)
    study.slow(1)
    start = study.start(study.targets()[0])
    study.wait_for_step("one", 2)
    start.send_signal(signal.SIGINT)
    assert start.wait(120) != 0
    (study.folder / "bin" / "stuck").touch()
    study.slow(0)
    again = study.start(*study.targets(), log="again.log")
    wait_until("the other run", lambda: "two" in study.records(), 120)
    told = study.said("again.log")
    assert "Slurm jobs of an earlier start are still ending, and their work waits for it: " in told
    assert told.count("submitted as") == 1
    (study.folder / "bin" / "stuck").unlink()
    assert again.wait(200) == 0, study.said("again.log")
    assert study.digests() == undisturbed.digests()


def test_a_job_that_slurm_took_late_is_taken_over_after_a_limit(study: ClusterStudy):
    put_before(study, "sbatch", LATE)
    status, told = study.run(study.targets()[0])
    assert status == 0, told
    assert "Socket timed out" in told
    assert [name.partition("-")[0] for name in study.slurm_jobs()] == ["train.one"], "one Slurm job"
