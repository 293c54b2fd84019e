"""`reward-ablation status` of a study with running and waiting runs on a real cluster."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .cluster import Cluster, wait_until
from .studies import ClusterStudy

pytestmark = [pytest.mark.slow, pytest.mark.long]


def test_runs_at_work_and_in_the_queue_also_while_the_controller_is_away(cluster: Cluster, tmp_path: Path):
    study = ClusterStudy(tmp_path / "status", cluster, seeds=[0, 1])
    study.site["train"]["cpus"] = 8  # a whole node each: two of four runs wait
    study.slow(1)
    study.start(*study.targets())
    try:
        wait_until("two runs that wait", lambda: "4 runs: 2 running, 2 queued\n" in study.told("status"), 200)
        wait_until("a step", lambda: re.search(r"step [1-9]\d* of 24", study.told("status")), 120)
        study.slow(8)  # a command that gets no answer takes its time
        text = study.told("status")
        assert re.search(r"seed\d  running +step \d+ of 24, reward -?\d\.\d+.*, job \d+ on n[12]\n", text)
        assert re.search(r"seed\d  queued +job \d+ PENDING \((Resources|Priority)\)", text)
        cluster.stop_controller()
        text = study.told("status")
        assert "4 runs: 2 running, 2 not started\n" in text  # by their locks
        assert "which runs wait at Slurm is not known: squeue: " in text
    finally:
        cluster.start_controller()
        study.end()
