"""Launcher of a run's processes on one node: accelerate's launcher with one-line errors. The processes end with it.

python -m reward_ablation.training.around.launch.launcher --processes N [...] -- OPTIONS OF reward_ablation.training

`processes` starts it for a run of several processes: in its own place, beside a vLLM server, or by srun on each of
several nodes.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

from accelerate.commands import launch as accelerate_launch
from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing import api as elastic
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

from reward_ablation.system.exit_status import GOES_ON, ended, is_permanent
from reward_ablation.training.around.launch.guardian import STOPS
from reward_ablation.training.around.launch.worker import ERROR_STAYS, WORKER
from reward_ablation.training.core.options import OF_ALL_STRATEGIES, STRATEGIES


def accelerate_options(
    processes: int, nodes: int, port: int, strategy: str = "ddp", environment: Mapping[str, str] = os.environ
) -> list[str]:
    """Options of `accelerate launch` for `processes` on all `nodes`, which connect at a port, 0 for any free one.

    Ranks follow the order of the job's nodes, so that results do not depend on which node connects first. DeepSpeed's
    batch, accumulation and clipping come from the run's settings, by transformers. `environment` has Slurm's variables.
    """
    options = STRATEGIES[strategy]
    options = [*options, "--num_processes", str(processes), "--num_machines", str(nodes), "--gpu_ids", "all"]
    options += [*OF_ALL_STRATEGIES, "--main_process_port", str(port)]
    if nodes > 1:
        options += ["--rdzv_backend", "static", "--machine_rank", environment["SLURM_NODEID"]]
        options += ["--main_process_ip", environment["SLURM_LAUNCH_NODE_IPADDR"]]  # srun runs on the first node
    return options


def status_of(statuses: Mapping[int, int], first: int) -> int:
    """Exit status of a run from the statuses of the processes that failed, by rank: the `first` failure decides.

    It is 1 if the first error is permanent, and `GOES_ON` otherwise. Later failures follow from the first: these
    processes lost their peer, or the launcher ended them. If the error may pass, lines on stderr name the processes
    that a signal ended: SIGTERM or SIGINT only if it was the first failure and no process has the status `GOES_ON`.
    """
    if is_permanent(statuses[first]):
        return 1
    # A process that lost its peer has a status to go on later, too, and may be noticed first.
    killed = {rank for rank, status in statuses.items() if status < 0 and -status not in STOPS}
    if statuses[first] < 0 and GOES_ON not in statuses.values():
        killed.add(first)
    for rank in sorted(killed):
        print(f"error: {ended(f'process {rank} of the run', statuses[rank])}", file=sys.stderr)
    return GOES_ON


def heed_the_first_signal() -> None:
    """Let the first SIGTERM or SIGINT end all processes in order. Further signals have no effect.

    A signal to all processes of a job arrives several times, because some pass it on. torch's own handler, a private
    function, raises an exception each time, also in the wait for processes that are saving, and these would be killed.
    """
    assert hasattr(elastic, "_terminate_process_handler"), "this version of torch has another signal handler"
    elastic._terminate_process_handler = _stop_once


def _stop_once(signum: int, frame: FrameType | None) -> None:
    for ignored in STOPS:
        # Not SIG_IGN: Python prints an error for a signal that has already arrived and finds no handler.
        signal.signal(ignored, lambda number, frame: None)
    raise SignalException(f"got signal {signum}", signal.Signals(signum))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m reward_ablation.training.around.launch.launcher")
    parser.add_argument("--processes", required=True, type=int, help="number of the run's processes on all its nodes")
    parser.add_argument("--nodes", default=1, type=int)
    parser.add_argument("--strategy", default="ddp", choices=STRATEGIES)
    parser.add_argument("--port", default=0, type=int, help="port of the first node for connections; 0: any free port")
    parser.add_argument("arguments", nargs="*")
    arguments = parser.parse_args()
    # Seconds after a signal until processes are killed. torch's default is 30, and a step may take longer.
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "3600")
    os.environ[WORKER] = "1"  # for the processes that are started here
    heed_the_first_signal()
    accelerate_launch.default_config_file = ""  # a user's own accelerate config must not count
    logging.disable(logging.ERROR)  # torch logs at length how each process ended; the run prints its errors itself
    options = accelerate_options(arguments.processes, arguments.nodes, arguments.port, arguments.strategy)
    options += ["--module", "reward_ablation.training", *arguments.arguments]
    try:
        accelerate_launch.launch_command(accelerate_launch.launch_command_parser().parse_args(options))
    except SignalException:
        sys.exit(GOES_ON)
    except ChildFailedError as error:
        statuses = {rank: failure.exitcode for rank, failure in error.failures.items()}
        status = status_of(statuses, first=error.get_first_failure()[0])
        if is_permanent(status) and (word := os.environ.get(ERROR_STAYS)):
            Path(word).touch()
        sys.exit(status)


if __name__ == "__main__":
    main()
