"""Hostile programs: none passes, none does harm, and none leaves anything behind."""

import os
import re
import subprocess
import tempfile
import uuid
from pathlib import Path

import pytest

from reward_ablation.rewards.sandbox import supervisor
from reward_ablation.rewards.sandbox.judging import Task, judge
from reward_ablation.rewards.sandbox.supervisor import Job

from ..processes import descendants
from .hostile import NUMBER_OF_FAMILIES, WRONG, hostile_program
from .hostile_compositions import COMPOSITIONS

ASSERTS = [
    "assert cube(3) == 27",
    "assert abs(cube(2.5) - 15.625) < 1e-9 and cube(-2) in (-8,)",
    "assert cube(10) == 1000",
]
SCRIPTED = [{"input": "3\n", "output": "27\n"}, {"input": "10\n", "output": "1000\n"}]
RIGHT = "def cube(x):\n    return x ** 3\n"
SECRET = "canary-5f1c27"


@pytest.fixture
def home(monkeypatch):
    """A home folder with a secret file that all users may read and write, and a secret variable."""
    monkeypatch.setenv("CANARY_SECRET", SECRET)
    with tempfile.TemporaryDirectory() as folder:
        canary = Path(folder, "canary.txt")
        canary.write_text(SECRET)
        canary.chmod(0o666)
        os.chmod(folder, 0o777)
        monkeypatch.setenv("HOME", folder)
        yield Path(folder)


def orphans_of_nobody():
    """Processes that have lost their parent and belong to the user of programs that root starts."""
    listed = subprocess.run(["ps", "-e", "-o", "pid=,ppid=,uid="], capture_output=True, text=True, check=True).stdout
    return {line.split()[0] for line in listed.splitlines() if line.split()[1:] == ["1", "65534"]}


@pytest.mark.parametrize("count", [NUMBER_OF_FAMILIES, pytest.param(2000, marks=[pytest.mark.slow, pytest.mark.long])])
def test_none_passes_and_none_harms(runner, home, monkeypatch, count):
    monkeypatch.setattr(supervisor, "wall_seconds", lambda seconds: 4.0)
    runner.run([Job(WRONG, "script", "", 1, 512)], 1)
    server, before, orphans = runner.pid, len(descendants(runner.pid)), orphans_of_nobody()
    cases = [hostile_program(number, home / "canary.txt") for number in range(count)]
    tasks = [Task(case.program, SCRIPTED if case.is_script else ASSERTS) for case in cases]
    verdicts = judge(tasks, seconds=1, memory_mb=512, runner=runner, workers=4)
    graded = [(case.family, case.program[:300], verdict) for case, verdict in zip(cases, verdicts, strict=True)]
    assert [case for case in graded if case[2].share or case[2].status in ("passed", "error")] == []
    assert runner.pid == server  # alive, and so is this process
    assert len(descendants(server)) == before
    assert orphans_of_nobody() <= orphans
    assert (home / "canary.txt").read_text() == SECRET
    assert sorted(path.name for path in home.iterdir()) == ["canary.txt"]
    assert judge([Task(RIGHT, ASSERTS)], seconds=1, memory_mb=512, runner=runner)[0].status == "passed"


def test_no_object_of_a_program_decides_in_the_process_of_the_tests(runner):
    tasks = [Task(program, [test]) for program, test in COMPOSITIONS.values()]
    verdicts = judge(tasks, seconds=2, memory_mb=1024, runner=runner)
    found = dict(zip(COMPOSITIONS, (verdict.status for verdict in verdicts), strict=True))
    assert {name: status for name, status in found.items() if status != "failed"} == {}


def test_the_secret_of_the_home_folder_is_in_no_output(runner, home):
    cases = [hostile_program(number, home / "canary.txt") for number in range(12 * NUMBER_OF_FAMILIES)]
    jobs = [Job(case.program, "script", "", 2, 512) for case in cases if case.family == "script: home"]
    outcomes = runner.run(jobs, 2)
    assert len(outcomes) == 12
    assert not any(SECRET.encode() in outcome.output for outcome in outcomes)


def test_neither_tests_nor_other_programs_are_in_the_memory_of_a_program(runner):
    """A program that finds the expected result could return it."""
    expected = f"expected-{uuid.uuid4().hex}"
    program = (
        "import gc, re\n"
        "def cube(x):\n"
        "    for one in gc.get_objects():\n"
        "        found = re.search('expected-[0-9a-f]{32}', str(one)[:10**6])\n"
        "        if found:\n"
        "            return found[0]\n"
    )
    tests = [f"assert cube(1) == {expected!r}"]
    other = f"text = {expected!r}\n"
    tasks = [Task(program, tests), Task(other, tests), Task(program, tests), Task(other + program, tests)]
    verdicts = judge(tasks, seconds=5, memory_mb=512, runner=runner, workers=1)
    assert [verdict.status for verdict in verdicts] == ["failed", "failed", "failed", "passed"]


def test_the_memory_of_the_server_has_no_variable_of_the_user(runner, monkeypatch):
    monkeypatch.setenv("API_TOKEN", SECRET)
    runner.close()
    [outcome] = runner.run([Job("import os\nprint(sorted(os.environ))", "script", "", 2, 512)], 1)
    assert b"PYTHONHASHSEED" in outcome.output
    assert not re.search(b"API_TOKEN|HOME", outcome.output)
