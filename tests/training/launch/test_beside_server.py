"""A run's training beside its vLLM server, a stand-in: which processes run, and which of them end together."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from reward_ablation.system.exit_status import GOES_ON
from reward_ablation.system.locks import Held, take

from ..interrupting import wait_for
from .stand_in_vllm import make_vllm

#: Starts a server and, beside it, the program in its second argument; the run's lock is held by both.
SUPERVISOR = """
import os, sys
from pathlib import Path
from reward_ablation.system.errors import one_line_errors
from reward_ablation.system.locks import take
from reward_ablation.training.around.launch import vllm_server
from reward_ablation.training.around.launch.vllm_server import ServerPlan, train_beside_server

folder = Path(sys.argv[1])
vllm_server.FOUND_WITHIN, vllm_server.PATIENCE_WITH_SERVER, vllm_server.PROGRESS_EVERY = 0.5, 2.0, 0.3
plan = ServerPlan(folder / "model", folder / "run" / "vllm.log", 1, 1, 0.9, 700)
with one_line_errors(), take(folder / "run" / ".lock") as lock:
    lock.share()
    command = [sys.executable, "-c", sys.argv[2]]
    sys.exit(train_beside_server(plan, command, os.environ, int(sys.argv[3]), [lock.descriptor]))
"""

#: Trains until it is told to stop, in a process of its own too.
TRAINER = """
import json, os, signal, subprocess, sys, time

def stop(number, frame):
    print("trainer was told", signal.Signals(number).name, flush=True)
    sys.exit(75)

signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGINT, stop)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
server = json.loads(os.environ["REWARD_ABLATION_VLLM"])
gpus, direct = os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ["NO_PROXY"]
print("trains", json.dumps({"pids": [os.getpid(), child.pid], "gpus": gpus, "direct": direct, **server}), flush=True)
time.sleep(600)
"""


class Supervised:
    """A supervisor that has been started, and what it and its processes have printed."""

    def __init__(self, folder: Path, environment: dict[str, str], trainer: str, gpus: int):
        self.log, self.server_log, self.lock = folder / "log", folder / "run" / "vllm.log", folder / "run" / ".lock"
        with self.log.open("w") as log:
            command = [sys.executable, "-c", SUPERVISOR, str(folder), trainer, str(gpus)]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def trains(self) -> dict:
        """The trainer's line on itself, once it trains."""
        return json.loads(wait_for("trains ", self.log, self.process))

    def servers(self) -> list[int]:
        """Processes of the server, which has started."""
        said = self.server_log.read_text()
        return [json.loads(said.splitlines()[0])["pid"], int(re.search("engine pid (.*)", said)[1])]

    def ends(self, status: int) -> str:
        """All that was printed, once it has ended with this exit status."""
        found = self.process.wait(60)
        said = self.log.read_text()
        assert found == status, said
        return said


@pytest.fixture
def supervise(tmp_path):
    """`supervise(trainer, gpus, stand_in, **environment)` starts a supervisor; all that it has started is ended."""
    (tmp_path / "model").mkdir()
    environment = make_vllm(tmp_path / "packages")
    started = []

    def start(trainer: str = TRAINER, gpus: int = 0, stand_in: dict | None = None, **more: str) -> Supervised:
        more = {"STAND_IN": json.dumps(stand_in or {}), **more}
        started.append(Supervised(tmp_path, {**environment, **more}, trainer, gpus))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.wait()


def gone(pids: list[int]) -> bool:
    """Whether these processes are gone, or go within some seconds."""
    deadline = time.monotonic() + 20
    while (left := any(map(psutil.pid_exists, pids))) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not left


@pytest.mark.parametrize(
    ("training", "status", "told"),
    [
        ("print('trained', flush=True)", 0, r"(train: waiting for the vLLM server, \d s\n)+trained\n"),
        ("os.kill(os.getpid(), 9)", GOES_ON, ".*error: the training process was ended by SIGKILL; if for want of .*\n"),
        ("sys.exit(-1)", 1, ".*error: the training process ended with exit status 255\n"),
    ],
)
def test_the_status_of_training_is_the_run_s_and_the_server_ends(supervise, training, status, told):
    started = supervise(f"import os, sys; {training}", stand_in={"slow": 1} if status == 0 else {})
    said = started.ends(status)
    assert re.fullmatch(told, said, re.DOTALL)
    assert gone(started.servers())
    take(started.lock).release()


def test_each_has_its_gpus_only_the_run_has_the_key_and_a_signal_is_for_the_training(supervise):
    started = supervise(gpus=2, CUDA_VISIBLE_DEVICES="4,5,7", http_proxy="http://nowhere:1", no_proxy="site")
    told = started.trains()
    assert (told["gpus"], json.loads(started.server_log.read_text().splitlines()[0])["gpus"], told["direct"]) == (
        "4,5",
        "7",
        "site,127.0.0.1",
    )
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"{told['url']}/v1/models")
    asked = urllib.request.Request(f"{told['url']}/v1/models", headers={"Authorization": f"Bearer {told['key']}"})
    assert json.load(urllib.request.urlopen(asked))["data"][0]["id"] == told["model_name"]
    supervisor = psutil.Process(started.process.pid)
    lines = [" ".join(each.cmdline()) for each in (supervisor, *supervisor.children(True))]
    assert any("vllm.entrypoints.cli.main" in line for line in lines)
    assert not any(told["key"] in text for text in (*lines, started.server_log.read_text()))
    started.process.send_signal(signal.SIGINT)
    assert "trainer was told SIGINT\n" in started.ends(GOES_ON)
    assert gone([*told["pids"], *started.servers()])


def test_none_outlives_a_killed_supervisor_and_the_lock_is_held_as_long_as_the_server_is_there(supervise):
    """The engine of such a server may have a GPU's memory for some time."""
    started = supervise()
    pids = started.trains()["pids"]
    api_server = psutil.Process(started.servers()[0])
    api_server.suspend()  # so that it takes its guardian's whole patience
    with pytest.raises(Held):
        take(started.lock)
    started.process.kill()
    started.process.wait()
    for _ in range(200):  # ten seconds
        with suppress(Held):
            take(started.lock).release()
            break
        time.sleep(0.05)
    else:
        pytest.fail("the lock is held on")
    assert not api_server.is_running() or api_server.status() == psutil.STATUS_ZOMBIE
    assert gone([*pids, *started.servers()])


@pytest.mark.parametrize("whose", ["training", "server"])
def test_what_a_killed_guardian_kept_is_ended(supervise, whose):
    started = supervise()
    pids, servers = started.trains()["pids"], started.servers()
    guardian = psutil.Process((pids if whose == "training" else servers)[0]).parent()
    assert "guardian" in " ".join(guardian.cmdline())
    guardian.kill()
    said = started.ends(GOES_ON)
    assert not any(map(psutil.pid_exists, [*pids, *servers]))
    what = "the training process" if whose == "training" else "launch.vllm: the vLLM server"
    assert said.splitlines()[-1].startswith(f"error: {what} was ended by SIGKILL")
    take(started.lock).release()


def test_a_server_that_dies_ends_the_training(supervise):
    started = supervise(TRAINER.replace("sys.exit(75)", "pass"))  # in the midst of a step it does not end when told
    pids, servers = started.trains()["pids"], started.servers()
    os.kill(servers[0], signal.SIGKILL)
    said = started.ends(GOES_ON)
    told = "error: launch.vllm: the vLLM server was ended by SIGKILL; if for want of memory, ask for"
    assert said.splitlines()[-1].startswith(told)
    assert gone([*pids, *servers])


def test_training_that_misses_its_server_is_not_at_fault(supervise, tmp_path):
    """The trainer's error may come before its supervisor sees the server's end."""
    log = str(tmp_path / "run" / "vllm.log")
    code = f"import json, os, sys; os.kill(json.loads(open({log!r}).readline())['pid'], 9); sys.exit(1)"
    said = supervise(code).ends(GOES_ON)
    assert "error: launch.vllm: the vLLM server was ended by SIGKILL" in said.splitlines()[-1]


def test_a_signal_while_it_starts_is_the_end(supervise):
    started = supervise(stand_in={"slow": 600})
    wait_for("waiting for the vLLM server", started.log, started.process)
    started.process.send_signal(signal.SIGTERM)
    said = started.ends(GOES_ON)
    assert said.endswith("train: stopped before training began: SIGTERM; the same command goes on from there\n")
    assert gone(started.servers())


@pytest.mark.parametrize(
    ("stand_in", "status", "told"),
    [
        ({"dies": "no room"}, 1, "the vLLM server did not start: RuntimeError: no room; the server's log: {log}\n"),
        ({"root": "/another/model"}, 1, "the vLLM server serves /another/model, and the run"),
        ({"taken": True}, GOES_ON, "another program took http://127.0.0.1:"),
    ],
)
def test_a_server_that_does_not_start_and_another_server_are_one_line(supervise, stand_in, status, told):
    started = supervise(stand_in=stand_in)
    said = started.ends(status)
    last = said.removeprefix(re.match("(train: waiting for the vLLM server.*\n)*", said)[0])
    assert last.startswith(f"error: launch.vllm: {told.format(log=started.server_log)}")
    assert last.count("\n") == 1
    if "dies" in stand_in:
        assert gone(started.servers())
