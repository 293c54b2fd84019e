"""vLLM beside a run's training: what the spec does not say of it, and a server of the run's own.

The server is started, waited for, and told from anybody else's.
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
from reward_ablation.study.run_spec import RunSpec
from reward_ablation.system.errors import PassingError, StudyError
from reward_ablation.training.around.launch.guardian import guarded
from reward_ablation.training.around.launch.key import KEY, RequireKey, header, new_key
from reward_ablation.training.core.options import server_options

#: Variable by which a run's processes find their vLLM server.
SERVER = "REWARD_ABLATION_VLLM"
#: Seconds between two progress lines while waiting for the server.
TELL_EVERY = 10.0
#: Seconds after which we stop waiting: loading a large model from a slow disk and compiling it takes many minutes.
LONGEST_START = 3600.0
#: Seconds between two requests to a server that starts, for the answer, and for the server to end in order.
LOOK_EVERY, ANSWER_WITHIN, PATIENCE = 0.5, 5.0, 5.0
#: Ports to try: a free port may be taken before the server listens at it.
PORTS = 3

_LOCAL = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a site's proxy does not know this machine
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
#: What vLLM puts before a line: its process, level, time and place.
_PREFIX = re.compile(r"^(\([^()]*pid=\d+\)\s*)?([A-Z]+ [\d-]+ [\d:.]+ (\[[^\]]*\])?\s*)?")
_ERROR = re.compile(r"[A-Za-z_][\w.]*(Error|Exception)\b")
#: Errors that only say that there was another one.
_SECOND_HAND = ("See root cause above", "See stack trace for root cause")


class PortTaken(Exception):
    """Somebody else is at the port."""


@dataclass(frozen=True)
class Server:
    """Where a run's own vLLM server is."""

    url: str  # such as http://127.0.0.1:43211
    group_port: int  # where server and trainer meet for the weights
    model_name: str  # at this server: a server of another run has another name
    started: float  # `time.perf_counter()` at the start of the run's first process, which has waited for the server
    key: str = field(repr=False)  # what the server asks of each request

    def environment(self) -> dict[str, str]:
        """What the run's processes are started with."""
        return {SERVER: json.dumps(asdict(self))}


@dataclass(frozen=True)
class Engine:
    """How vLLM runs beside a run, and what the run has of its GPU: what does not decide the result."""

    memory: float = 0.3  # share of a GPU's memory, in (0, 1)
    sleep: bool = False  # whether vLLM lets go of its memory while the model is trained
    server: Server | None = None  # None in colocate mode
    gpu_share: float = 1.0  # less where other runs have the rest of the GPU

    @classmethod
    def from_options(
        cls,
        memory_percent: int = 30,
        sleep: bool = False,
        environment: Mapping[str, str] = os.environ,
        gpu_share: float = 1.0,
    ) -> Engine:
        """By the options of the training command, and by the environment that the command was started in."""
        server = environment.get(SERVER)
        return cls(memory_percent / 100, sleep, Server(**json.loads(server)) if server else None, gpu_share)

    def settings(self, mode: str) -> dict[str, Any]:
        """TRL's settings of vLLM in its mode, "server" or "colocate"; they change no number."""
        if mode == "server":
            assert self.server is not None
            return {"vllm_server_base_url": self.server.url, "vllm_group_port": self.server.group_port}
        return {"vllm_gpu_memory_utilization": self.memory, "vllm_enable_sleep_mode": self.sleep}


@dataclass(frozen=True)
class ServerPlan:
    """How a run's server is started."""

    model: Path  # folder of the base model
    log: Path  # for the server's output
    gpus: int
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
        given = [part for option, value in options.items() for part in (f"--{option}", str(value))]
        start = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", str(self.model.absolute())]
        return [*start, *given, "--enable-scale-out"]


@contextmanager
def serving(
    plan: ServerPlan, environment: dict[str, str], keep: Sequence[int], check_stop: Callable[[], None]
) -> Iterator[tuple[Popen, Server]]:
    """Run a server as long as the block lasts; yields its guardian, and what training needs to know of the server.

    Parameters
    ----------
    environment : dict of str to str
        For the server; variables that vLLM needs are added here.
    keep : sequence of int
        Descriptors of locks that hold until the server is gone.
    check_stop : function
        Called while the server starts; raises where nobody wants the server any more.

    Raises
    ------
    StudyError
        The server ended, or did not begin to serve the model.
    """
    environment = {
        **environment,
        "VLLM_SERVER_DEV_MODE": "1",  # the endpoints that take weights
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
        f"launch.vllm: {PORTS} free ports, the last one {port}, were taken before the vLLM server was at them; start "
        "the run again"
    )


def _wait_for(process: Popen, server: Server, plan: ServerPlan, check_stop: Callable[[], None]) -> None:
    """Return once the server serves the model; raises `PortTaken` where another server has the port."""
    started = told = time.monotonic()
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
        if now - told >= TELL_EVERY:
            print(f"train: waiting for the vLLM server, {now - started:.0f} s", flush=True)
            told = now
        time.sleep(LOOK_EVERY)


def _check_model(answer: bytes | None, name: str, model: Path) -> None:
    """Refuse a server that is not this run's, or has another model than its trainer."""
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
    """What a server answers; None where there is none, it is not ready, or it has another key."""
    try:
        with _LOCAL.open(urllib.request.Request(url, headers=header(key)), timeout=ANSWER_WITHIN) as answer:
            return answer.read()
    except (OSError, ValueError):  # refused, reset, too late, or no HTTP
        return None


def longest_text(spec: RunSpec, model: Path, problems: Path) -> int:
    """Tokens that vLLM makes room for: what the settings say, or the longest prompt and a completion of full length.

    Without such a number vLLM makes room for the longest text that the model can read.

    Raises
    ------
    StudyError
        The settings, or the model, have less room than that: vLLM would cut completions of long prompts short.
    """
    import pyarrow.parquet as pq

    from reward_ablation.sampling.prompts import render_prompt, tokenize_prompts  # imports transformers
    from reward_ablation.sampling.tokenizer import load_tokenizer

    training = spec.training
    prompts = [render_prompt(question, spec.prompt) for question in pq.read_table(problems)["question"].to_pylist()]
    tokens = tokenize_prompts(prompts, load_tokenizer(model), training.get("chat_template_kwargs"))
    longest = max(map(len, tokens))
    needed = longest + training.get("max_completion_length", COMPLETION_LENGTH)
    context = json.loads((model / "config.json").read_text()).get("max_position_embeddings")
    for room, what in (
        (training.get("vllm_max_model_length"), "training.vllm_max_model_length"),
        (context, "the model"),
    ):
        if room is not None and room < needed:
            raise StudyError(
                f"launch.vllm: {what} has room for {room} tokens, and the longest prompt takes {longest} beside a "
                f"completion, {needed} in all; lower max_completion_length, or leave long questions out"
            )
    return training.get("vllm_max_model_length") or needed


def last_words(log: Path) -> str:
    """The last line of a server's log that tells what was wrong, and where the log is."""
    lines = [_PREFIX.sub("", _ANSI.sub("", line)).strip() for line in log.read_text(errors="replace").splitlines()]
    said = [line for line in lines if line]
    errors = [line for line in said if _ERROR.match(line) and not any(text in line for text in _SECOND_HAND)]
    line = (errors or said or ["it said nothing"])[-1]
    return f"{line if len(line) <= 300 else line[:297] + '...'}; its log: {log}"


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]
