"""A run's training beside its vLLM server: neither outlives the other, and neither outlives this process."""

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

#: Seconds between two looks at training and server.
LOOK_EVERY = 0.2
#: Seconds that training gets to end once its server has ended; more where a signal has told both to stop.
PATIENCE, PATIENCE_WHEN_STOPPED = 1.0, 120.0
#: Seconds after the end of training in which the end of its server counts as the cause.
FOUND_WITHIN = 3.0


class _Stopped(Exception):
    """A signal has come before training began."""


class Signals:
    """SIGTERM and SIGINT to this process, which are for its training."""

    def __init__(self) -> None:
        self.asked: int | None = None
        self.trainer: Popen | None = None

    def note(self, number: int, frame: object) -> None:
        self.asked = number
        if self.trainer is not None:
            self.trainer.send_signal(number)

    def check(self) -> None:
        """Raise where training has been told to stop before it began."""
        if self.asked is not None:
            raise _Stopped


def train_beside_server(
    plan: ServerPlan, trainer: Sequence[str], environment: Mapping[str, str], gpus: int, keep: Sequence[int]
) -> int:
    """Start a server, then training; return the exit status of training, which ends where the server ends first.

    Parameters
    ----------
    trainer : sequence of str
        The command of the training processes, or of their launcher.
    environment : mapping
        For server and training. The last GPUs that it shows are the server's.
    gpus : int
        GPUs of the training; 0 where all is on the CPU.
    keep : sequence of int
        Descriptors of the run's locks.

    Raises
    ------
    StudyError
        The server did not start.
    PassingError
        The server ended before the training, or a signal ended the training.
    """
    shown = environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if gpus else []
    signals = Signals()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signals.note)
    adopt()  # the processes of a guardian that is killed itself
    try:
        with serving(plan, {**environment, **_visible(shown[gpus:])}, keep, signals.check) as (process, server):
            told = {
                **environment,
                **_visible(shown[:gpus]),
                **_without_proxy(environment),
                **server.environment(),
                WORKER: "1",
                "VLLM_HOST_IP": "127.0.0.1",  # where the server is told to meet the trainer for the weights
            }
            with guarded(trainer, PATIENCE, told) as signals.trainer:
                signals.check()
                return _watch(signals.trainer, process, signals, plan)
    except _Stopped:
        name = signal.Signals(signals.asked or 0).name
        beat(plan.log.parent / WORK, STOPPED, why=name)
        print(f"train: stopped before training began: {name}; the same command goes on from there", flush=True)
        return GOES_ON
    finally:
        end_all()


def _visible(gpus: Sequence[str]) -> dict[str, str]:
    """Variables by which a process sees these GPUs only; nothing is said where there are none."""
    return {"CUDA_VISIBLE_DEVICES": ",".join(gpus)} if gpus else {}


def _without_proxy(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables by which a process asks no proxy for this machine."""
    names = ("no_proxy", "NO_PROXY")
    given = next((environment[name] for name in names if environment.get(name)), "")
    return dict.fromkeys(names, ",".join(filter(None, [given, "127.0.0.1"])))


def _watch(trainer: Popen, server: Popen, signals: Signals, plan: ServerPlan) -> int:
    """Exit status of the training, once it has ended.

    A signal to all processes of a job reaches the server too: training gets some time to save what it has.
    """
    missed: float | None = None
    while trainer.poll() is None:
        if missed is None and server.poll() is not None:
            missed = time.monotonic()
        if missed is not None and (signals.asked is None or time.monotonic() - missed > PATIENCE_WHEN_STOPPED):
            break
        time.sleep(LOOK_EVERY)
    status = trainer.returncode
    if status in (0, GOES_ON):
        return status
    if signals.asked is not None and (missed is not None or status in (-signals.asked, 128 + signals.asked)):
        return GOES_ON
    with suppress(subprocess.TimeoutExpired):
        server.wait(FOUND_WITHIN)
    if server.returncode is not None:
        raise PassingError(
            f"launch.vllm: {ended('the vLLM server', server.returncode)}, and training with it; the same command goes "
            f"on from the last checkpoint; its last words: {last_words(plan.log)}"
        )
    if status < 0 or status > 128:  # a signal ended the guardian, or training, of which the guardian tells
        error = StudyError if is_permanent(status) else PassingError
        raise error(ended("the training process", status))
    return status
