"""Sandboxes, one for each way of isolation that this machine offers."""

import shutil
import subprocess

import pytest

from reward_ablation.rewards.sandbox.isolation import landlock_version
from reward_ablation.rewards.sandbox.judging import Task, judge
from reward_ablation.rewards.sandbox.supervisor import MODES, Sandbox, sandbox
from reward_ablation.system.errors import StudyError

#: What isolation by namespaces needs of a machine, by the tools of Debian.
NAMESPACES = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--net", "--ipc", "sh", "-c"]
MOUNTS = "mount -t tmpfs none /tmp && mount --rbind /usr /mnt"


def is_offered(mode: str) -> bool:
    """Whether this machine offers a way of isolation, whatever our own code makes of it."""
    if mode == "landlock":
        return landlock_version() > 0
    has_tool = shutil.which("unshare") is not None
    return has_tool and subprocess.run([*NAMESPACES, MOUNTS], capture_output=True).returncode == 0


@pytest.fixture(scope="session", params=MODES)
def runner(request):
    """A sandbox of one way of isolation, by which a program can harm no other process."""
    made = Sandbox((request.param,))
    try:
        made.run([], 1)
    except StudyError as error:
        (pytest.fail if is_offered(request.param) else pytest.skip)(f"{request.param}: {error}")
    if request.param == "landlock" and landlock_version() < 6:
        pytest.skip("this kernel's Landlock lets a program signal other processes")
    yield made
    made.close()


@pytest.fixture(scope="session")
def verdicts():
    """Verdicts on programs by the same tests, in the first way of isolation that this machine offers."""
    try:
        sandbox.run([], 1)
    except StudyError as error:
        pytest.skip(str(error))

    def of(programs, tests, code_before="", **settings):
        settings = {"seconds": 2, "memory_mb": 512} | settings
        return judge([Task(program, tests, code_before) for program in programs], **settings)

    return of


@pytest.fixture
def status(verdicts):
    """Status of one program."""
    return lambda program, tests, **settings: verdicts([program], tests, **settings)[0].status
