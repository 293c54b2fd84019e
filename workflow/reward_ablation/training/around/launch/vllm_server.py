"""vLLM beside a run's training: its settings that are not part of the spec, and the run's own server.

This module starts the server, waits for it, and makes sure that it is not another run's server.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from subprocess import Popen
from typing import Any

from reward_ablation.config.grpo_settings import COMPLETION_LENGTH
from reward_ablation.spec.run import RunSpec
from reward_ablation.system.errors import PassingError, StudyError
from reward_ablation.training.around.launch.guardian import guarded
from reward_ablation.training.around.launch.key import KEY, RequireKey, header, new_key
from reward_ablation.training.core.options import server_options

#: Environment variable that tells a run's processes where their vLLM server is.
SERVER = "REWARD_ABLATION_VLLM"
#: Seconds between two progress lines while waiting for the server.
PROGRESS_EVERY = 10.0
#: Seconds after which we stop waiting: loading a large model from a slow disk and compiling it takes many minutes.
LONGEST_START = 3600.0
#: Seconds between two requests to a server that is starting.
POLL_EVERY = 0.5
#: Seconds to wait for the answer to a request.
ANSWER_WITHIN = 5.0
#: Seconds between SIGTERM and SIGKILL when the server has to end.
PATIENCE = 5.0
#: How many ports to try: another program may take a free port before the server listens there.
PORTS = 3

#: Uses no proxy: a site's proxy cannot reach this machine's own ports.
_LOCAL = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
#: Start of vLLM's log lines: process, level, time, and position in the code.
_PREFIX = re.compile(r"^(\([^()]*pid=\d+\)\s*)?([A-Z]+ [\d-]+ [\d:.]+ (\[[^\]]*\])?\s*)?")
_ERROR = re.compile(r"[A-Za-z_][\w.]*(Error|Exception)\b")
#: Texts of errors that only refer to another error.
_SECOND_HAND = ("See root cause above", "See stack trace for root cause")


class PortTaken(Exception):
    """Another program listens at the port."""


@dataclass(frozen=True)
class Server:
    """Address, name and key of a run's own vLLM server."""

    url: str  # such as http://127.0.0.1:43211
    group_port: int  # port at which server and trainer exchange the weights
    model_name: str  # the model's name at this server; another run's server has another name
    started: float  # `time.perf_counter()` at the start of the run's first process, which waited for the server
    key: str = field(repr=False)  # the server requires this key with each request

    def environment(self) -> dict[str, str]:
        """Environment variables for the run's processes."""
        return {SERVER: json.dumps(asdict(self))}


@dataclass(frozen=True)
class Engine:
    """How vLLM runs beside a run's training: settings that do not decide the result."""

    memory: float = 0.3  # share of a GPU's memory, in (0, 1)
    sleep: bool = False  # whether vLLM frees its memory while the model is trained
    server: Server | None = None  # None in colocate mode

    @classmethod
    def from_options(
        cls, memory_percent: int = 30, sleep: bool = False, environment: Mapping[str, str] = os.environ
    ) -> Engine:
        """The engine by the options of the training command and by the environment variables of its process."""
        server = environment.get(SERVER)
        return cls(memory_percent / 100, sleep, Server(**json.loads(server)) if server else None)

    def settings(self, mode: str) -> dict[str, Any]:
        """TRL's settings of vLLM in a mode, "server" or "colocate". They change no number."""
        if mode == "server":
            assert self.server is not None
            return {"vllm_server_base_url": self.server.url, "vllm_group_port": self.server.group_port}
        return {"vllm_gpu_memory_utilization": self.memory, "vllm_enable_sleep_mode": self.sleep}


@dataclass(frozen=True)
class ServerPlan:
    """How a run's server is started."""

    model: Path  # folder of the base model
    log: Path  # file for the server's output
    gpus: int  # number of the server's GPUs
    tensor_parallel_size: int  # how many of the GPUs share one copy of the model
    memory: float  # share of a GPU's memory
    max_model_length: int  # see `longest_text`
    model_impl: str | None = None  # vLLM's implementation of the model; None: vLLM's choice
    started: float = field(default_factory=time.perf_counter)  # the run's time includes the server's start

    def command(self, port: int, name: str) -> list[str]:
        """The command of vLLM's own server."""
        options: dict[str, Any] = {
            "host": "127.0.0.1",
            "port": port,
            "served-model-name": name,
            "gpu-memory-utilization": self.memory,
            "max-model-len": self.max_model_length,
            "middleware": f"{RequireKey.__module__}.{RequireKey.__name__}",
            **server_options(self.gpus, self.tensor_parallel_size, self.model_impl),
        }
        arguments = [part for option, value in options.items() for part in (f"--{option}", str(value))]
        start = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", str(self.model.absolute())]
        return [*start, *arguments, "--enable-scale-out"]


@contextmanager
def serving(
    plan: ServerPlan, environment: dict[str, str], keep: Sequence[int], check_stop: Callable[[], None]
) -> Iterator[tuple[Popen, Server]]:
    """Run a server as long as the block lasts. Yields the server's guardian, and its address for the training.

    Variables that vLLM needs are added to the server's `environment`. `keep` has descriptors of locks that are held
    until the server has ended. `check_stop` is called while the server starts, and raises an exception to give up the
    start.

    Raises StudyError if the server ended before it served the model, or serves another model. Raises PassingError if
    the server did not start in time, or all its ports were taken.
    """
    environment = {
        **environment,
        "VLLM_SERVER_DEV_MODE": "1",  # enables the endpoints that receive weights
        "VLLM_HOST_IP": "127.0.0.1",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    plan.log.parent.mkdir(parents=True, exist_ok=True)
    for _ in range(PORTS):
        port, name = free_port(), f"reward-ablation-{uuid.uuid4().hex[:12]}"
        server = Server(f"http://127.0.0.1:{port}", free_port(), name, plan.started, new_key())
        own = {**environment, KEY: server.key}
        with plan.log.open("wb") as log, guarded(plan.command(port, name), PATIENCE, own, log, keep) as process:
            try:
                _wait_for(process, server, plan, check_stop)
            except PortTaken:
                continue
            yield process, server
            return
    raise PassingError(
        f"launch.vllm: {PORTS} free ports, the last one {port}, were taken before the vLLM server listened there; "
        "start the run again"
    )


def _wait_for(process: Popen, server: Server, plan: ServerPlan, check_stop: Callable[[], None]) -> None:
    """Return once the server serves the model. Raises `PortTaken` if another program has the port."""
    started = last_line = time.monotonic()
    while True:
        check_stop()
        if _get(f"{server.url}/health", server.key) is not None:
            _check_model(_get(f"{server.url}/v1/models", server.key), server.model_name, plan.model)
            return
        if process.poll() is not None:
            if "address already in use" in plan.log.read_text(errors="replace").lower():
                raise PortTaken
            raise StudyError(f"launch.vllm: the vLLM server did not start: {last_words(plan.log)}")
        now = time.monotonic()
        if now - started > LONGEST_START:
            raise PassingError(
                f"launch.vllm: the vLLM server did not start within {LONGEST_START:.0f} s; see {plan.log}"
            )
        if now - last_line >= PROGRESS_EVERY:
            print(f"train: waiting for the vLLM server, {now - started:.0f} s", flush=True)
            last_line = now
        time.sleep(POLL_EVERY)


def _check_model(answer: bytes | None, name: str, model: Path) -> None:
    """Refuse a server that is not this run's, or that serves a model other than the trainer's."""
    try:
        served = json.loads(answer or b"")["data"][0]
        root = served.get("root") if served["id"] == name else None
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        raise PortTaken from None
    if served["id"] != name:
        raise PortTaken
    if root != str(model.absolute()):
        raise StudyError(f"launch.vllm: the vLLM server serves {root}, and the run trains {model.absolute()}")


def _get(url: str, key: str) -> bytes | None:
    """Answer to a request; None if no server answers, it is not ready, or it has another key."""
    try:
        with _LOCAL.open(urllib.request.Request(url, headers=header(key)), timeout=ANSWER_WITHIN) as answer:
            return answer.read()
    except (OSError, ValueError):  # refused, reset, timed out, or not HTTP
        return None


def longest_text(spec: RunSpec, model: Path, problems: Path) -> int:
    """Number of tokens that vLLM reserves memory for.

    It is the number of the settings, or the longest prompt's and a completion's of full length. Without a number, vLLM
    reserves memory for the longest text that the model can read.

    Raises StudyError if the settings or the model have no room for the longest prompt and a completion of full length.
    vLLM would cut completions of long prompts short.
    """
    from reward_ablation.sampling.tokenizer import load_tokenizer  # imports transformers
    from reward_ablation.training.core.problems import training_problems

    completion = spec.training.get("max_completion_length", COMPLETION_LENGTH)
    _, longest = training_problems(spec, model, load_tokenizer(model), problems, completion)
    needed, room = longest + completion, spec.training.get("vllm_max_model_length")
    if room is not None and room < needed:
        raise StudyError(
            f"training.vllm_max_model_length: {room}, and the longest prompt, of {longest} tokens, needs {needed} with "
            "its completion; raise it, or lower max_completion_length"
        )
    return room or needed


def last_words(log: Path) -> str:
    """The last line of a server's log that names an error, or else its last line; and the path of the log."""
    lines = [_PREFIX.sub("", _ANSI.sub("", line)).strip() for line in log.read_text(errors="replace").splitlines()]
    filled = [line for line in lines if line]
    errors = [line for line in filled if _ERROR.match(line) and not any(text in line for text in _SECOND_HAND)]
    line = (errors or filled or ["the server printed nothing"])[-1]
    return f"{line if len(line) <= 300 else line[:297] + '...'}; the server's log: {log}"


def free_port() -> int:
    """A port of this machine at which no program listens."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]
