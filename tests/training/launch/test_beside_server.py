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
vllm_server.FOUND_WITHIN = 0.5
vllm_server.PROGRESS_EVERY = float(os.environ.get("TELL_EVERY", 10))
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

#: The run's own launcher of two processes, of another module than the training's; each takes its time to save.
LAUNCHER = """
import sys
from reward_ablation.training.around.launch import launcher
options = launcher.accelerate_options
launcher.accelerate_options = lambda *given: [*options(*given), "--module", "rank"]
sys.argv = ["launcher", "--processes", "2"]
launcher.main()
"""
RANK = """
import os, signal, sys, time
rank, told = os.environ["RANK"], []
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda number, frame: told.append(number))
print(f"rank {rank} trains\\n", end="", flush=True)
while not told:
    time.sleep(0.05)
time.sleep(3)
print(f"rank {rank} saved\\n", end="", flush=True)
sys.exit(75)
"""


class Supervised:
    """A supervisor that has been started, and what it and its processes have printed."""

    def __init__(self, folder: Path, environment: dict[str, str], trainer: str, gpus: int):
        self.log, self.server_log = folder / "log", folder / "run" / "vllm.log"
        with self.log.open("w") as log:
            command = [sys.executable, "-c", SUPERVISOR, str(folder), trainer, str(gpus)]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def wait_for(self, text: str, path: Path | None = None) -> str:
        """The rest of the first line with this text."""
        deadline = time.monotonic() + 60
        while True:
            said = (path or self.log).read_text() if (path or self.log).exists() else ""
            if found := re.search(f"{text}(.*)\n", said):
                return found[1]
            assert time.monotonic() < deadline, said
            assert self.process.poll() is None, said
            time.sleep(0.05)

    def trains(self) -> dict:
        """The trainer's line on itself, once it trains."""
        return json.loads(self.wait_for("trains "))

    def servers(self) -> list[int]:
        """Processes of the last started server."""
        engine = int(self.wait_for("engine pid ", self.server_log))
        return [json.loads(self.server_log.read_text().splitlines()[0])["pid"], engine]


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
    while any(map(psutil.pid_exists, pids)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_training_ends_and_the_server_with_it(supervise, tmp_path):
    started = supervise("print('trained', flush=True)")
    assert started.process.wait(60) == 0
    assert started.log.read_text() == "trained\n"
    assert gone(started.servers())
    take(tmp_path / "run" / ".lock").release()


@pytest.mark.parametrize(
    ("ends", "status", "told"),
    [
        ("sys.exit(75)", GOES_ON, ""),
        ("os.kill(os.getpid(), 9)", GOES_ON, "error: the training process was ended by SIGKILL; if for want of memory"),
        ("sys.exit(-1)", 1, "error: the training process ended with exit status 255\n"),
    ],
)
def test_the_status_of_training_is_the_run_s(supervise, ends, status, told):
    started = supervise(f"import os, sys; {ends}")
    assert started.process.wait(60) == status
    assert started.log.read_text().startswith(told)
    assert gone(started.servers())


def test_only_the_run_has_the_key_and_no_command_line_shows_it(supervise, tmp_path):
    supervised = supervise()
    told = supervised.trains()
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"{told['url']}/v1/models")
    asked = urllib.request.Request(f"{told['url']}/v1/models", headers={"Authorization": f"Bearer {told['key']}"})
    assert json.load(urllib.request.urlopen(asked))["data"][0]["id"] == told["model_name"]
    everybody = [supervised.process.pid, *(each.pid for each in psutil.Process(supervised.process.pid).children(True))]
    lines = [" ".join(psutil.Process(pid).cmdline()) for pid in everybody]
    assert any("vllm.entrypoints.cli.main" in line for line in lines)
    assert not any(told["key"] in line for line in lines)
    assert told["key"] not in supervised.server_log.read_text()


def test_each_has_its_own_gpus(supervise):
    started = supervise(gpus=2, CUDA_VISIBLE_DEVICES="4,5,7", http_proxy="http://nowhere:1", no_proxy="site")
    trains = started.trains()
    assert (trains["gpus"], trains["direct"]) == ("4,5", "site,127.0.0.1")
    assert json.loads(started.server_log.read_text().splitlines()[0])["gpus"] == "7"


def test_a_signal_is_for_the_training(supervise):
    started = supervise()
    pids = started.trains()["pids"]
    started.process.send_signal(signal.SIGINT)
    assert started.process.wait(60) == GOES_ON
    assert "trainer was told SIGINT\n" in started.log.read_text()
    assert gone([*pids, *started.servers()])


@pytest.mark.parametrize("whom", ["supervisor", "trainer"])
def test_none_outlives_a_kill(supervise, whom, tmp_path):
    started = supervise()
    pids = started.trains()["pids"]
    with pytest.raises(Held):
        take(tmp_path / "run" / ".lock")
    os.kill(started.process.pid if whom == "supervisor" else pids[0], signal.SIGKILL)
    started.process.wait(60)
    assert gone([*pids, *started.servers()])
    wait_until_free(tmp_path / "run" / ".lock")


@pytest.mark.parametrize("whose", ["training", "server"])
def test_what_a_killed_guardian_kept_is_ended(supervise, whose, tmp_path):
    started = supervise()
    pids, servers = started.trains()["pids"], started.servers()
    guardian = psutil.Process((pids if whose == "training" else servers)[0]).parent()
    assert "guardian" in " ".join(guardian.cmdline())
    guardian.kill()
    assert started.process.wait(60) == GOES_ON
    assert not any(map(psutil.pid_exists, [*pids, *servers]))
    what = "the training process" if whose == "training" else "launch.vllm: the vLLM server"
    assert started.log.read_text().splitlines()[-1].startswith(f"error: {what} was ended by SIGKILL")
    take(tmp_path / "run" / ".lock").release()


def wait_until_free(lock: Path):
    deadline = time.monotonic() + 10
    while True:
        try:
            take(lock).release()
            return
        except Held:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_the_lock_is_held_as_long_as_the_server_is_there(supervise, tmp_path):
    """The engine of a server whose supervisor was killed may have a GPU's memory for some time."""
    started = supervise()
    started.trains()
    api_server = psutil.Process(started.servers()[0])
    api_server.suspend()  # so that it takes its guardian's whole patience
    assert api_server.is_running()
    started.process.kill()
    started.process.wait()
    wait_until_free(tmp_path / "run" / ".lock")
    assert not api_server.is_running() or api_server.status() == psutil.STATUS_ZOMBIE
    assert gone(started.servers())


def test_a_server_that_dies_ends_the_training(supervise, tmp_path):
    started = supervise(
        TRAINER.replace("sys.exit(75)", "pass")
    )  # in the midst of a step it does not end when it is told
    pids = started.trains()["pids"]
    servers = started.servers()
    os.kill(servers[0], signal.SIGKILL)
    assert started.process.wait(60) == GOES_ON
    told = started.log.read_text().splitlines()[-1]
    assert told.startswith(
        "error: launch.vllm: the vLLM server was ended by SIGKILL; if for want of memory, ask for more"
    )
    assert told.endswith(f"; the server's log: {tmp_path / 'run' / 'vllm.log'}")
    assert gone([*pids, *servers])


def test_training_that_misses_its_server_is_not_at_fault(supervise, tmp_path):
    """The trainer's error may come before its supervisor sees the server's end."""
    log = str(tmp_path / "run" / "vllm.log")
    code = f"import json, os, sys; os.kill(json.loads(open({log!r}).readline())['pid'], 9); sys.exit(1)"
    started = supervise(code)
    assert started.process.wait(60) == GOES_ON
    assert "error: launch.vllm: the vLLM server was ended by SIGKILL" in started.log.read_text().splitlines()[-1]


def test_told_to_stop_training_outlives_its_server(supervise):
    """A signal to all processes of a job."""
    slow = TRAINER.replace("sys.exit(75)", "time.sleep(2); print('saved', flush=True); sys.exit(75)")
    started = supervise(slow)
    started.trains()
    servers = started.servers()
    started.process.send_signal(signal.SIGTERM)
    os.kill(servers[0], signal.SIGTERM)
    assert started.process.wait(60) == GOES_ON
    assert started.log.read_text().endswith("saved\n")
    assert gone(servers)


def test_a_signal_to_every_process_lets_all_of_a_run_s_processes_save(supervise, tmp_path):
    """As at a job's end: the launcher of several processes gets the signal from the system and from two guardians."""
    (tmp_path / "packages" / "rank.py").write_text(RANK)
    started = supervise(LAUNCHER, ACCELERATE_USE_CPU="true")
    started.wait_for("rank 0 trains")
    started.wait_for("rank 1 trains")
    supervisor = psutil.Process(started.process.pid)
    servers = started.servers()
    everyone = [supervisor, *supervisor.children(recursive=True)]
    for process in everyone:
        with suppress(psutil.NoSuchProcess):  # the server's are quick
            process.terminate()
    assert started.process.wait(60) == GOES_ON, started.log.read_text()
    said = started.log.read_text()
    assert sorted(re.findall(r"rank \d saved", said)) == ["rank 0 saved", "rank 1 saved"], said
    assert gone([*(process.pid for process in everyone[1:]), *servers])


def test_a_slow_start_is_told_of(supervise):
    started = supervise("print('trained', flush=True)", stand_in={"slow": 2}, TELL_EVERY="0.5")
    assert started.process.wait(60) == 0
    lines = started.log.read_text().splitlines()
    assert re.fullmatch(r"train: waiting for the vLLM server, \d s", lines[0])
    assert lines[-1] == "trained"


def test_a_signal_while_it_starts_is_the_end(supervise):
    started = supervise(stand_in={"slow": 600}, TELL_EVERY="0.5")
    started.wait_for("waiting for the vLLM server")
    started.process.send_signal(signal.SIGTERM)
    assert started.process.wait(60) == GOES_ON
    assert started.log.read_text().splitlines()[-1] == (
        "train: stopped before training began: SIGTERM; the same command goes on from there"
    )
    assert gone(started.servers())


def test_a_server_that_does_not_start_is_one_line(supervise, tmp_path):
    started = supervise(stand_in={"dies": "no room for the key-value cache"})
    assert started.process.wait(60) == 1
    assert started.log.read_text() == (
        "error: launch.vllm: the vLLM server did not start: RuntimeError: no room for the key-value cache; "
        f"the server's log: {tmp_path / 'run' / 'vllm.log'}\n"
    )
    assert gone([int(started.server_log.read_text().split("engine pid ")[1].split()[0])])


@pytest.mark.parametrize(
    ("stand_in", "status", "told"),
    [
        (
            {"root": "/another/model"},
            1,
            "error: launch.vllm: the vLLM server serves /another/model, and the run",
        ),
        ({"taken": True}, GOES_ON, "error: launch.vllm: another program took http://127.0.0.1:"),
    ],
)
def test_another_server_is_one_line(supervise, stand_in, status, told):
    started = supervise(stand_in=stand_in)
    assert started.process.wait(60) == status
    said = started.log.read_text()
    assert said.startswith(told)
    assert said.count("\n") == 1
