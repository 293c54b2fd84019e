import os
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from reward_ablation.cluster.script import Part, batch_script, number_in, output_pattern, status_of_part
from reward_ablation.system.errors import StudyError
from reward_ablation.system.exit_status import GOES_ON

HOSTILE = 'a b/it\'s "$(touch PWNED)" `touch PWNED` $HOME \\ *'


@pytest.fixture
def part(tmp_path: Path) -> Part:
    """A part whose command does nothing."""
    statuses = tmp_path / "statuses"
    statuses.mkdir()
    return Part("true", [], [], 1, statuses)


def started(script: str, folder: Path, **variables: str) -> subprocess.Popen:
    """A shell that runs a script as Slurm does, as job 7."""
    path = folder / "script"
    path.write_text(script)
    environment = {**os.environ, "SLURM_JOB_ID": "7", **variables}
    return subprocess.Popen(["bash", str(path)], env=environment, cwd="/", start_new_session=True)


def run(script: str, folder: Path, **variables: str) -> int:
    """Exit status of a script."""
    return started(script, folder, **variables).wait(60)


@pytest.mark.parametrize(
    ("command", "left"),
    [
        ("exit 3", 3),
        ("false; true", 1),  # as Snakemake has bash run commands
        ("exec sh -c 'kill -9 $$'", 137),
    ],
)
def test_a_job_leaves_the_exit_status_of_its_command(part, tmp_path, command, left):
    statuses = tmp_path / HOSTILE
    statuses.mkdir(parents=True)
    (statuses / "7.status").write_text("0\n")  # of a job of this number on another cluster
    part = replace(part, command=f"set -euo pipefail; {command}", statuses=statuses)
    assert run(batch_script([part], str(tmp_path), 1), tmp_path) == left
    assert status_of_part(statuses, "7") == left
    assert status_of_part(statuses, "8") is None
    assert not list(tmp_path.rglob("PWNED"))


def test_a_command_has_its_folder_inputs_folders_of_outputs_and_threads(part, tmp_path):
    folder = tmp_path / HOSTILE
    folder.mkdir(parents=True)
    (folder / "there").touch()
    part = replace(
        part,
        command='exec printf "%s %s" "$OMP_NUM_THREADS" "$MKL_NUM_THREADS" > "new/ \\$x/log"',
        inputs=["there"],
        outputs=["new/ $x/log", "out"],
        threads=3,
    )
    assert run(batch_script([part], str(folder), 1), tmp_path, TMPDIR="/not/here") == 0
    assert (folder / "new" / " $x" / "log").read_text() == "3 3"
    assert not list(tmp_path.rglob("PWNED"))


def test_an_input_that_comes_late_is_waited_for_and_one_that_does_not_may_come_later(part, tmp_path):
    late = replace(part, inputs=["late one"])
    process = started(batch_script([late], str(tmp_path), 30), tmp_path)
    time.sleep(0.2)
    assert process.poll() is None
    (tmp_path / "late one").touch()
    assert process.wait(30) == 0
    missing = replace(part, inputs=["late one", "missing"])
    assert run(batch_script([missing], str(tmp_path), 1), tmp_path) == GOES_ON
    assert status_of_part(part.statuses, "7") == GOES_ON


def test_a_folder_of_temporary_files_that_this_node_lacks_is_not_used_and_the_wall_time_is_left(part, tmp_path):
    show = replace(part, command='sleep 0.2; printf %s "${TMPDIR-none}" > shown', benchmark="of/job.tsv")
    for folder, used in (("/not/here", "none"), (str(tmp_path), str(tmp_path))):
        assert run(batch_script([show], str(tmp_path), 1), tmp_path, TMPDIR=folder) == 0
        assert (tmp_path / "shown").read_text() == used
    name, seconds = (tmp_path / "of" / "job.tsv").read_text().splitlines()
    assert name == "s"
    assert float(seconds) > 0.1


def test_a_signal_ends_the_command_and_not_the_shell_and_no_part_begins_after_it(part, tmp_path):
    """Slurm signals all processes of a job; the trainer saves and says by its status how it ended."""
    for left in (GOES_ON, 0):
        command = f"trap 'sleep 0.5; touch saved; exit {left}' TERM; touch ready; while :; do sleep 0.1; done"
        parts = [replace(part, command=command), replace(part, command="touch two", statuses=tmp_path)]
        process = started(batch_script(parts, str(tmp_path), 1), tmp_path)
        while not (tmp_path / "ready").exists():
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGTERM)
        assert process.wait(30) == GOES_ON
        (tmp_path / "saved").unlink()
        (tmp_path / "ready").unlink()
        assert status_of_part(part.statuses, "7") == left
        assert not (tmp_path / "two").exists()


def test_no_part_follows_one_that_fails_and_a_job_that_slurm_starts_again_leaves_out_what_is_done(part, tmp_path):
    commands = ["echo one >> made", "echo two >> made; [ -e mended ]", "echo three >> made"]
    parts = [replace(part, command=command, statuses=tmp_path / str(n)) for n, command in enumerate(commands)]
    for each in parts:
        each.statuses.mkdir()
    script = batch_script(parts, str(tmp_path), 1)
    assert run(script, tmp_path) == 1
    assert [status_of_part(each.statuses, "7") for each in parts] == [0, 1, None]
    (tmp_path / "mended").touch()
    assert run(script, tmp_path, SLURM_RESTART_COUNT="1") == 0
    assert (tmp_path / "made").read_text().split() == ["one", "two", "two", "three"]


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        ("12;cluster\n", "12"),
        ("*** Your project has 1200 GPU hours left ***\n7\nthank you\n", "7"),
        ("sbatch 22.05.8\n", None),
    ],
)
def test_the_number_is_found_among_what_a_site_adds(answer, number):
    assert number_in(answer) == number


def test_slurm_puts_nothing_of_its_own_into_a_folders_name():
    assert output_pattern(Path("/home/100%j/a %%x")) == "/home/100%%j/a %%%%x/%j.log"
    with pytest.raises(StudyError, match=r"^/home/back\\slash: Slurm cannot write logs into .*; start the study"):
        output_pattern(Path("/home/back\\slash"))
