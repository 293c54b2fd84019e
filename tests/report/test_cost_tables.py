"""Costs of runs: times of attempts, of Slurm jobs and of Slurm's accounting, against hours by hand."""

import json
import math
from pathlib import Path

import pandas as pd
import pytest

from analysis.made_up import MadeUpStudy, run_rule
from reward_ablation.analysis.runs import Attempt, RunRecord
from reward_ablation.analysis.study_file import StudyRun
from reward_ablation.report.cost.accounting import Accounting, Allocation
from reward_ablation.report.cost.columns import COUNTS, TIMES, sentence
from reward_ablation.report.cost.tables import cost_by_arm, cost_of_run, lost
from specs import arm_spec

RUN = StudyRun(arm="a", key="00000000", seed=0, folder="runs/a-00000000/seed0", spec=arm_spec())
NAME = "study-1f2e3d.train.a-00000000_seed0"
HARDWARE = {"machine": "x86_64", "cpus": 16, "gpus": ["NVIDIA H200"] * 2, "processes": 2}
JOB = {"id": "12", "name": NAME, "cluster": "c", "gpus": 2, "cpus": 8, "start": 1000.0, "seconds_before": 100.0}
HAD = {"id": "12", "name": NAME, "state": "COMPLETED", "seconds": 3700, "cpus": 8, "gpus": 2}


def attempt(from_step: int, to_step: int, wall: float, begun: float = 0.0, ended="done", slurm=None) -> Attempt:
    times = {"wall_seconds": wall, "start_seconds": begun, "ended": ended, "slurm": slurm}
    steps = {"from_step": from_step, "to_step": to_step}
    return Attempt.model_validate({**steps, **times, "packages": {}, "hardware": HARDWARE})


def cost(*attempts: Attempt, accounting: Accounting | None = None) -> dict[str, int | float]:
    sums = {"wall_seconds": sum(one.wall_seconds for one in attempts), "gpu_hours": 0.0, "cpu_hours": 0.0}
    record = {"code": "", "inputs": {}, "steps": 10, "packages": {}, "hardware": HARDWARE, "files": {}, **sums}
    listed = [one.model_dump() for one in attempts]
    return cost_of_run(RUN, RunRecord.model_validate({**record, "attempts": listed}), accounting or {})


@pytest.mark.parametrize(
    ("attempts", "steps", "seconds"),
    [
        ([attempt(0, 10, 110)], [0], [0]),
        # Stopped by a signal: it saved what it had.
        ([attempt(0, 6, 70, 10, "SIGTERM"), attempt(6, 10, 50, 10)], [0, 0], [0, 0]),
        # Killed at step 6, with a checkpoint at step 4: two of its six steps of 10 s.
        ([attempt(0, 6, 70, 10, "killed"), attempt(4, 10, 70, 10)], [2, 0], [20, 0]),
        # Killed before its first checkpoint: what it took to start is lost as well.
        ([attempt(0, 3, 40, 10, "killed"), attempt(0, 10, 110, 10)], [3, 0], [40, 0]),
        # Killed while it started.
        ([attempt(0, 4, 50, 10, "SIGTERM"), attempt(4, 4, 9, 8, "killed"), attempt(4, 10, 70, 10)], [0] * 3, [0, 9, 0]),
        # Killed after its checkpoint at 4 was damaged: of the first one two steps last.
        (
            [attempt(0, 4, 50, 10, "SIGTERM"), attempt(4, 9, 60, 10, "killed"), attempt(2, 10, 90, 10)],
            [2, 5, 0],
            [20, 60, 0],
        ),
        # A killed one's record is some steps old: it had its checkpoint at 4 after that.
        ([attempt(0, 3, 40, 10, "killed"), attempt(4, 10, 70, 10)], [0, 0], [0, 0]),
    ],
)
def test_what_is_lost_is_what_a_later_attempt_trained_again(attempts, steps, seconds):
    assert [of_attempt[0] for of_attempt in lost(attempts)] == steps
    assert [of_attempt[1] for of_attempt in lost(attempts)] == pytest.approx(seconds)


def test_a_run_without_slurm_has_its_own_clock_alone():
    told = cost(attempt(0, 6, 70, 10, "killed"), attempt(4, 10, 70, 10))
    assert (told["attempts"], told["interrupted"], told["steps_lost"], told["seconds_lost"]) == (2, 1, 2, 20.0)
    assert told["gpu_hours_lost"] == pytest.approx(2 * 20 / 3600, abs=1e-4)
    unknown = [name for name, value in told.items() if math.isnan(value)]
    assert unknown == ["gpu_hours_of_jobs", "gpu_hours_accounted", "cpu_hours_of_jobs", "cpu_hours_accounted"]


def test_a_job_counts_each_time_from_its_start_with_all_that_it_had():
    told = cost(attempt(0, 10, 3500, slurm=JOB | {"gpus": 8}))  # a whole node, for a run on two of its GPUs
    assert (told["gpu_hours_of_jobs"], told["cpu_hours_of_jobs"]) == (8.0, 8.0)
    requeued = JOB | {"start": 9000.0, "seconds_before": 200.0}
    told = cost(attempt(0, 4, 800, ended="killed", slurm=JOB), attempt(2, 10, 700, slurm=requeued))
    assert told["gpu_hours_of_jobs"] == pytest.approx(2 * (900 + 900) / 3600, abs=1e-4)
    # Two attempts in one job, one after the other, are within one stretch of time.
    later = JOB | {"seconds_before": 1000.0}
    told = cost(attempt(0, 4, 800, ended="killed", slurm=JOB), attempt(2, 10, 700, slurm=later))
    assert told["gpu_hours_of_jobs"] == pytest.approx(2 * 1700 / 3600, abs=1e-4)


def test_the_accounting_counts_for_the_jobs_that_it_knows():
    one, two = (JOB, JOB | {"id": "15"})
    attempts = attempt(0, 4, 800, ended="killed", slurm=one), attempt(2, 10, 700, slurm=two)
    first = [Allocation(**HAD | {"state": "REQUEUED", "seconds": 900}), Allocation(**HAD)]
    known: Accounting = {("c", "12", NAME): first}
    assert math.isnan(cost(*attempts, accounting=known)["gpu_hours_accounted"])  # not of job 15
    # That cluster's accounting does not count GPUs: they are the job's own.
    known["c", "15", NAME] = [Allocation(**HAD | {"id": "15", "gpus": None, "seconds": 1000})]
    told = cost(*attempts, accounting=known)
    assert told["gpu_hours_accounted"] == pytest.approx(2 * (900 + 3700 + 1000) / 3600, abs=1e-4)
    assert told["cpu_hours_accounted"] == pytest.approx(8 * (900 + 3700 + 1000) / 3600, abs=1e-4)


def test_of_a_job_that_went_on_with_the_evaluation_the_time_of_the_training_counts():
    """Slurm started it three times: the first time in training, then from training to evaluation, then there."""
    first, second = (JOB | {"parts": 2, "start": start, "seconds_before": 100.0} for start in (9000.0, 10000.0))
    attempts = attempt(0, 4, 800, ended="killed", slurm=first), attempt(2, 10, 700, slurm=second)
    had = [(9000.0, 900), (10000.0, 5000), (20000.0, 3000)]
    known: Accounting = {("c", "12", NAME): [Allocation(**HAD | {"start": start, "seconds": s}) for start, s in had]}
    told = cost(*attempts, accounting=known)
    assert told["gpu_hours_accounted"] == pytest.approx(2 * (900 + 100 + 700) / 3600, abs=1e-4)
    known["c", "15", NAME] = [Allocation(**HAD | {"id": "15", "start": 30000.0, "seconds": 900})]
    elsewhere = second | {"id": "15", "start": 30000.0}
    told = cost(attempt(0, 4, 800, ended="killed", slurm=first), attempt(2, 10, 700, slurm=elsewhere), accounting=known)
    assert told["gpu_hours_accounted"] == pytest.approx(2 * (900 + 5000 + 3000 + 800) / 3600, abs=1e-4)


@pytest.mark.parametrize(
    "other",
    [
        None,  # on a workstation
        JOB | {"name": "study-1f2e3d.train.b-00000000_seed0"},
        JOB | {"start": None, "seconds_before": None},
    ],
)
def test_hours_of_jobs_are_told_only_where_all_attempts_had_jobs_of_their_own(other):
    told = cost(attempt(0, 4, 800, ended="killed", slurm=JOB), attempt(2, 10, 700, slurm=other))
    assert math.isnan(told["gpu_hours_of_jobs"])


def test_arms_are_summed_and_shared_runs_count_once():
    columns = {name: [1, 2, 4] for name in (*COUNTS, *TIMES.values())}
    columns |= {"wall_seconds": [3600.0, 7200.0, 1800.0], "gpu_hours_of_jobs": [1.0, math.nan, 3.0]}
    runs = pd.DataFrame({"arm": ["a", "a", "b"], "key": ["0", "0", "0"], "seed": [0, 1, 1], **columns})
    own = cost_by_arm(runs, ["a", "b"], ["a/0", "a/1", "b/1"]).set_index("arm")  # imported, of equal weights
    assert own.loc["all arms", ["runs", "steps", "wall_hours"]].tolist() == [3, 7, 3.5]
    table = cost_by_arm(runs, ["a", "b"], ["a/0", "a/1", "a/1"]).fillna(-1)
    shown = table[["arm", "runs", "steps", "wall_hours", "gpu_hours_of_jobs"]]
    assert shown.to_numpy().tolist() == [["a", 2, 3, 3, -1], ["b", 1, 4, 0.5, 3], ["all arms", 2, 3, 3, -1]]


@pytest.fixture
def root(tmp_path) -> Path:
    MadeUpStudy(arms={"first": {"a": 1.0, "b": 0.0}, "second": {"a": 0.0, "b": 1.0}}).write(tmp_path)
    return tmp_path


def give_jobs(root: Path) -> None:
    """Have each run be trained in a Slurm job of its own."""
    for path in root.glob("runs/*/*/run.json"):
        record = json.loads(path.read_text())
        record["attempts"][0]["slurm"] = JOB | {"name": f"study-1f2e3d.train.{'_'.join(path.parts[-3:-1])}"}
        path.write_text(json.dumps(record))


def tables_of(root: Path) -> Path:
    run_rule("cost", root, root / "tables")
    return root / "tables"


def test_a_study_of_an_older_version_has_what_it_recorded(root):
    tables = tables_of(root)
    runs, table = pd.read_csv(tables / "runs.csv"), pd.read_csv(tables / "cost.csv")
    assert runs["cpu_hours"].isna().all()
    assert list(table["wall_hours"]) == pytest.approx([2 * 61.5 / 3600] * 2 + [4 * 61.5 / 3600], abs=1e-4)
    page = (tables / "cost.html").read_text()
    assert "<p>4 runs took 0.068 hours; steps that were trained twice: 0.</p>" in page
    assert "GPU hours" not in page
    assert "CPU hours" not in page
    assert not (tables / "cost.parquet").exists()


def test_a_study_in_slurm_is_told_why_there_is_no_accounting(root, monkeypatch, capsys):
    give_jobs(root)
    monkeypatch.setenv("PATH", "")
    tables = tables_of(root)
    assert (
        "\ncost: accounting of c: sacct: no such command; is Slurm installed on this" in f"\n{capsys.readouterr().out}"
    )
    table = pd.read_csv(tables / "cost.csv")
    assert list(table["gpu_hours_of_jobs"]) == pytest.approx([0.1794, 0.1794, 0.3589], abs=2e-4)
    assert table["gpu_hours_accounted"].isna().all()


def test_the_answer_of_the_accounting_is_in_the_tables(root, tmp_path, monkeypatch, capsys):
    give_jobs(root)
    program = tmp_path / "bin" / "sacct"
    program.parent.mkdir()
    line = "12|COMPLETED|3600|cpu=8,gres/gpu=2|1700000000|study-1f2e3d.train.first-00000000_seed"
    program.write_text(f"#!/bin/sh\necho '{line}0'\necho '{line}1'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    table = pd.read_csv(tables_of(root) / "cost.csv").set_index("arm")
    assert table.loc["first", "gpu_hours_accounted"] == 4.0
    assert table.loc[["second", "all arms"], "gpu_hours_accounted"].isna().all()
    told = "accounting of c: does not know 2 of 4 jobs; accounted hours of their runs are left out"
    assert told in capsys.readouterr().out
    page = (root / "tables" / "cost.html").read_text()
    assert "<td>4.00</td>" in page
    assert "<td>not known</td>" in page


def test_the_sentence_tells_hours_of_what_the_study_is_paid_in():
    times = dict.fromkeys(TIMES, math.nan) | {"wall_hours": 1234.5, "gpu_hours": 0.5, "gpu_hours_of_jobs": 2500.0}
    told = sentence(pd.Series({"runs": 1, **dict.fromkeys(COUNTS, 0), "steps_lost": 7, **times}, dtype=object))
    assert told == (
        "1 run took 1,234 hours; GPU hours: 0.500 by their own clocks, 2,500 by the clocks of their Slurm jobs; "
        "steps that were trained twice: 7"
    )
