"""A run's own vLLM server: start it, train beside it, and end both together.

`processes` calls it in a run's first process, which then trains nothing: it supervises the server and the training.
When one of them ends, the other is ended, too (the training may first save). Neither outlives this process.
"""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen
from typing import Any

from reward_ablation.config.trl_settings import COMPLETION_LENGTH
from reward_ablation.study.heartbeat import STOPPED, beat
from reward_ablation.study.run_folder import VLLM_LOG, WORK
from reward_ablation.system.errors import PassingError, StudyError
from reward_ablation.system.exit_status import GOES_ON, ended, is_permanent
from reward_ablation.training.around.job import Server, TrainingJob
from reward_ablation.training.around.launch.guardian import STOPS, adopt, end_all, guarded
from reward_ablation.training.around.launch.key import KEY, RequireKey, header, new_key
from reward_ablation.training.around.launch.worker import WORKER
from reward_ablation.training.core.options import server_options

#: Seconds between two progress lines while waiting for the server.
PROGRESS_EVERY = 10.0
#: Seconds after which we stop waiting: loading a large model from a slow disk and compiling it takes many minutes.
LONGEST_START = 3600.0
#: Seconds between two requests to a server that is starting, and to wait for an answer.
REQUEST_EVERY, ANSWER_WITHIN = 0.5, 5.0
#: Seconds between two checks whether training and server still run.
POLL_EVERY = 0.2
#: Seconds between SIGTERM and SIGKILL when server or training have to end, as after the end of the other.
PATIENCE_WITH_SERVER, PATIENCE_WITH_TRAINING = 5.0, 1.0
#: Seconds that the training gets to save and end if the server ends after a signal to both.
PATIENCE_WHEN_STOPPED = 120.0
#: If the server ends within this many seconds after the training failed, the end of the server counts as the cause.
FOUND_WITHIN = 3.0

#: Uses no proxy: a site's proxy cannot reach this machine's own ports.
_LOCAL = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
#: Start of vLLM's log lines: process, level, time, and position in the code.
_PREFIX = re.compile(r"^(\([^()]*pid=\d+\)\s*)?([A-Z]+ [\d-]+ [\d:.]+ (\[[^\]]*\])?\s*)?")
_ERROR = re.compile(r"[A-Za-z_][\w.]*(Error|Exception)\b")
#: Texts of errors that only refer to another error.
_SECOND_HAND = ("See root cause above", "See stack trace for root cause")


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

    @classmethod
    def of(cls, job: TrainingJob) -> ServerPlan:
        """The plan of a run whose spec has a server."""
        vllm = job.spec.vllm
        assert vllm is not None
        return cls(
            model=job.model,
            log=job.run_dir / VLLM_LOG,
            gpus=vllm.gpus,
            tensor_parallel_size=vllm.tensor_parallel_size,
            memory=job.engine.memory,
            max_model_length=longest_text(job),
            model_impl=job.spec.training.get("vllm_model_impl"),
        )

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
        return [*start, *arguments, "--enable-scale-out"]  # as TRL starts a server, for endpoints of its client


class _Stopped(Exception):
    """A signal came before training began."""


class Signals:
    """Passes SIGTERM and SIGINT of this process on to the training."""

    def __init__(self) -> None:
        self.received: int | None = None  # the last signal
        self.trainer: Popen | None = None  # guardian of the training, once it runs

    def note(self, number: int, frame: object) -> None:
        self.received = number
        if self.trainer is not None:
            self.trainer.send_signal(number)

    def check(self) -> None:
        """Raise if a signal came before training began."""
        if self.received is not None:
            raise _Stopped


def train_beside_server(
    plan: ServerPlan, trainer: Sequence[str], environment: Mapping[str, str], gpus: int, keep: Sequence[int]
) -> int:
    """Start a server, then the training by this command, which ends with the server; return the training's status.

    The server gets the last of the GPUs that `environment` makes visible, and the training the first `gpus`. `keep` has
    descriptors of the run's locks. Raises PassingError if the server ended first or a signal ended the training.
    """
    shown = environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if gpus else []
    signals = Signals()
    for number in STOPS:
        signal.signal(number, signals.note)
    adopt()  # so that `end_all` finds the processes of a guardian that was killed
    try:
        with serving(plan, {**environment, **_visible(shown[gpus:])}, keep, signals.check) as (process, server):
            of_training = {
                **environment,
                **_visible(shown[:gpus]),
                **_without_proxy(environment),
                **server.environment(),
                WORKER: "1",
                "VLLM_HOST_IP": "127.0.0.1",  # address at which server and trainer exchange the weights
            }
            with guarded(trainer, PATIENCE_WITH_TRAINING, of_training) as signals.trainer:
                signals.check()
                return _watch(signals.trainer, process, signals, plan)
    except _Stopped:
        name = signal.Signals(signals.received or 0).name
        beat(plan.log.parent / WORK, STOPPED, why=name)
        print(f"train: stopped before training began: {name}; the same command goes on from there", flush=True)
        return GOES_ON
    finally:
        end_all()


@contextmanager
def serving(
    plan: ServerPlan, environment: dict[str, str], keep: Sequence[int], check_stop: Callable[[], None]
) -> Iterator[tuple[Popen, Server]]:
    """Run a server while the block lasts; yield its guardian and address. `check_stop` raises to give up the start."""
    port, name = free_port(), f"reward-ablation-{uuid.uuid4().hex[:12]}"
    server = Server(f"http://127.0.0.1:{port}", free_port(), name, plan.started, new_key())
    environment = {
        **environment,
        "VLLM_SERVER_DEV_MODE": "1",  # enables the endpoints that receive weights
        "VLLM_HOST_IP": "127.0.0.1",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        KEY: server.key,
    }
    plan.log.parent.mkdir(parents=True, exist_ok=True)
    command = plan.command(port, name)
    with plan.log.open("wb") as log, guarded(command, PATIENCE_WITH_SERVER, environment, log, keep) as process:
        _wait_for(process, server, plan, check_stop)
        yield process, server


def _wait_for(process: Popen, server: Server, plan: ServerPlan, check_stop: Callable[[], None]) -> None:
    """Return once the server serves the model."""
    started = last_line = time.monotonic()
    while True:
        check_stop()
        if _get(f"{server.url}/health", server.key) is not None:
            _check_model(_get(f"{server.url}/v1/models", server.key), server, plan.model)
            return
        if process.poll() is not None:
            if "address already in use" in plan.log.read_text(errors="replace").lower():
                raise _port_taken(server)
            raise StudyError(f"launch.vllm: the vLLM server did not start: {last_words(plan.log)}")
        now = time.monotonic()
        if now - started > LONGEST_START:
            raise PassingError(
                f"launch.vllm: the vLLM server did not start within {LONGEST_START:.0f} s; see {plan.log}"
            )
        if now - last_line >= PROGRESS_EVERY:
            print(f"train: waiting for the vLLM server, {now - started:.0f} s", flush=True)
            last_line = now
        time.sleep(REQUEST_EVERY)


def _check_model(answer: bytes | None, server: Server, model: Path) -> None:
    """Refuse a server that is not this run's, or that serves a model other than the trainer's."""
    try:
        served = json.loads(answer or b"")["data"][0]
        name, root = served["id"], served.get("root")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        raise _port_taken(server) from None
    if name != server.model_name:
        raise _port_taken(server)
    if root != str(model.absolute()):
        raise StudyError(f"launch.vllm: the vLLM server serves {root}, and the run trains {model.absolute()}")


def _port_taken(server: Server) -> PassingError:
    """The error for another program at the server's port, which was free before the server started."""
    return PassingError(f"launch.vllm: another program took {server.url} before the vLLM server; start the run again")


def _get(url: str, key: str) -> bytes | None:
    """Answer to a request; None if no server answers, it is not ready, or it has another key."""
    try:
        with _LOCAL.open(urllib.request.Request(url, headers=header(key)), timeout=ANSWER_WITHIN) as answer:
            return answer.read()
    except (OSError, ValueError):  # refused, reset, timed out, or not HTTP
        return None


def longest_text(job: TrainingJob) -> int:
    """Number of tokens that vLLM reserves memory for: the setting `vllm_max_model_length`, or what the run needs.

    A run needs its longest prompt and a completion of full length. Raises StudyError if the settings or the model have
    no room for them, since vLLM would cut completions short, or if the settings name more tokens than the model reads.
    """
    from reward_ablation.sampling.context import context_of
    from reward_ablation.sampling.tokenizer import load_tokenizer  # imports transformers
    from reward_ablation.training.core.problems import training_problems

    completion = job.spec.training.get("max_completion_length", COMPLETION_LENGTH)
    _, longest = training_problems(job.spec, job.model, load_tokenizer(job.model), job.problems, completion)
    needed, room = longest + completion, job.spec.training.get("vllm_max_model_length")
    if room is not None and room < needed:
        raise StudyError(
            f"training.vllm_max_model_length: {room}, and the longest prompt, of {longest} tokens, needs {needed} with "
            "its completion; raise it, or lower max_completion_length"
        )
    context = context_of(job.model)
    if room is not None and context is not None and room > context:  # vLLM would rotate longrope's positions otherwise
        raise StudyError(
            f"training.vllm_max_model_length: {room}, and the model reads {context} tokens; lower it, or leave it out"
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


def _visible(gpus: Sequence[str]) -> dict[str, str]:
    """Environment variables that limit a process to these GPUs. Empty, so without a limit, if there are no GPUs."""
    return {"CUDA_VISIBLE_DEVICES": ",".join(gpus)} if gpus else {}


def _without_proxy(environment: Mapping[str, str]) -> dict[str, str]:
    """Environment variables under which a process uses no proxy for this machine."""
    names = ("no_proxy", "NO_PROXY")
    exceptions = next((environment[name] for name in names if environment.get(name)), "")
    return dict.fromkeys(names, ",".join(filter(None, [exceptions, "127.0.0.1"])))


def _watch(trainer: Popen, server: Popen, signals: Signals, plan: ServerPlan) -> int:
    """The training's exit status, once it ended. If a signal also ended the server, it gets time to save."""
    missed: float | None = None  # when we noticed the server's end
    while trainer.poll() is None:
        if missed is None and server.poll() is not None:
            missed = time.monotonic()
        if missed is not None and (signals.received is None or time.monotonic() - missed > PATIENCE_WHEN_STOPPED):
            break
        time.sleep(POLL_EVERY)
    status = trainer.returncode
    if status in (0, GOES_ON):
        return status
    if signals.received is not None and (missed is not None or status in (-signals.received, 128 + signals.received)):
        return GOES_ON
    with suppress(subprocess.TimeoutExpired):
        server.wait(FOUND_WITHIN)
    if server.returncode is not None:
        raise PassingError(
            f"launch.vllm: {ended('the vLLM server', server.returncode)}, and training with it; the same command goes "
            f"on from the last checkpoint; the server's last message: {last_words(plan.log)}"
        )
    if status < 0 or status > 128:  # a signal ended the guardian, or the training, whose status the guardian returns
        error = StudyError if is_permanent(status) else PassingError
        raise error(ended("the training process", status))
    return status
