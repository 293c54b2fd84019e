"""Submissions that fail, on a real cluster: nothing is submitted twice, and nothing is left behind."""

from __future__ import annotations

import signal

import pytest

from .cluster import Cluster, wait_until
from .studies import ClusterStudy, put_before

pytestmark = [pytest.mark.slow, pytest.mark.long]

#: The first submission is taken, but its answer is lost; a banner stands before that of the next.
UNCONFIRMED = """#!/bin/sh
case "$*" in *--test-only*) exec {program} "$@" ;; esac
if mkdir {folder}/first 2>/dev/null; then
    {program} "$@" >/dev/null
    echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation" >&2
    exit 1
fi
echo "*** Your project has 1200 GPU hours left ***"
exec {program} "$@"
"""

SLOW = """#!/bin/sh
case "$*" in *--test-only*) exec {program} "$@" ;; esac
touch {folder}/submitting
sleep 3
exec {program} "$@"
"""


def test_answers_that_are_lost_or_have_a_banner(study: ClusterStudy, undisturbed: ClusterStudy, cluster: Cluster):
    put_before(study, "sbatch", UNCONFIRMED)
    cluster.submit("sleep 60", b"--job-name=M\xfcller".decode(errors="surrogateescape"))
    status, told = study.train()
    assert status == 0, told
    assert study.digests() == undisturbed.digests()
    assert len(study.slurm_jobs()) == 2
    assert "Socket timed out" in told


def test_ctrl_c_while_jobs_are_being_submitted(study: ClusterStudy, cluster: Cluster):
    put_before(study, "sbatch", SLOW)
    start = study.start(*study.targets())
    wait_until("a submission", lambda: (study.folder / "bin" / "submitting").exists(), 120)
    start.send_signal(signal.SIGINT)
    assert start.wait(120) != 0
    wait_until("no job of it lives", lambda: not cluster.live(study.prefix))


def test_what_ended_while_nobody_looked_is_not_made_again(study: ClusterStudy, cluster: Cluster):
    """Snakemake is stopped while its jobs end, and Slurm forgets them in the meantime."""
    start = study.start_training(2, "--slurm-study-patience", "2")
    jobs = [study.job_of("one"), study.job_of("two")]
    start.send_signal(signal.SIGSTOP)
    study.slow(0)
    wait_until("both ended", lambda: all(cluster.state(job) == "COMPLETED" for job in jobs), 120)
    cluster.stop_controller()
    for state in cluster.folder.glob("state/job_state*"):
        state.unlink()
    cluster.start_controller()
    start.send_signal(signal.SIGCONT)
    assert start.wait(120) == 0, study.said()
    assert study.said().count("submitted as") == 2
    assert [len(record["attempts"]) for record in study.records().values()] == [1, 1]
