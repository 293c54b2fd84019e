"""Run a training beside its vLLM server. Neither outlives the other, and neither outlives this process."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from subprocess import Popen

from reward_ablation.study.heartbeat import STOPPED, beat
from reward_ablation.study.run_folder import WORK
from reward_ablation.system.errors import PassingError, StudyError
from reward_ablation.system.exit_status import GOES_ON, ended, is_permanent
from reward_ablation.training.around.launch.guardian import adopt, end_all, guarded
from reward_ablation.training.around.launch.vllm_server import ServerPlan, last_words, serving
from reward_ablation.training.around.launch.worker import WORKER

#: Seconds between two checks whether training and server still run.
POLL_EVERY = 0.2
#: Seconds between SIGTERM and SIGKILL when the training has to end, as after the end of its server.
PATIENCE = 1.0
#: Seconds that the training gets to save and end if the server ends after a signal to both.
PATIENCE_WHEN_STOPPED = 120.0
#: If the server ends within this many seconds after the training failed, the end of the server counts as the cause.
FOUND_WITHIN = 3.0


class _Stopped(Exception):
    """A signal came before training began."""


class Signals:
    """Passes SIGTERM and SIGINT of this process on to the training."""

    def __init__(self) -> None:
        self.received: int | None = None  # the last signal
        self.trainer: Popen | None = None

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
    """Start a server, then the training. Return the exit status of the training.

    If the server ends first, the training is ended. `trainer` is the command of the training process, or of the
    training's launcher. Server and training get `environment`, and the server gets the last of the GPUs that it makes
    visible. `gpus` is the number of the training's GPUs, 0 if everything runs on the CPU. `keep` has the descriptors of
    the run's locks.

    Raises StudyError if the server did not start, and PassingError if the server ended before the training or a signal
    ended the training.
    """
    shown = environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if gpus else []
    signals = Signals()
    for number in (signal.SIGTERM, signal.SIGINT):
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
            with guarded(trainer, PATIENCE, of_training) as signals.trainer:
                signals.check()
                return _watch(signals.trainer, process, signals, plan)
    except _Stopped:
        name = signal.Signals(signals.received or 0).name
        beat(plan.log.parent / WORK, STOPPED, why=name)
        print(f"train: stopped before training began: {name}; the same command goes on from there", flush=True)
        return GOES_ON
    finally:
        end_all()


def _visible(gpus: Sequence[str]) -> dict[str, str]:
    """Environment variables that limit a process to these GPUs. Empty, so without a limit, if there are no GPUs."""
    return {"CUDA_VISIBLE_DEVICES": ",".join(gpus)} if gpus else {}


def _without_proxy(environment: Mapping[str, str]) -> dict[str, str]:
    """Environment variables under which a process uses no proxy for this machine."""
    names = ("no_proxy", "NO_PROXY")
    exceptions = next((environment[name] for name in names if environment.get(name)), "")
    return dict.fromkeys(names, ",".join(filter(None, [exceptions, "127.0.0.1"])))


def _watch(trainer: Popen, server: Popen, signals: Signals, plan: ServerPlan) -> int:
    """Wait for the end of the training; return its exit status.

    A signal to all processes of a job also reaches the server and ends it. The training then gets time to save.
    """
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
