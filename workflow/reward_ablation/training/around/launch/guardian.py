"""Run a command, and end all that it has started when it ends, or when whoever started this is gone.

A server would go on for ever when its supervisor is killed by SIGKILL, which no process sees coming. The supervisor
holds the other end of the pipe that this reads: the kernel closes it, however the supervisor ends.

python -m reward_ablation.training.around.launch.guardian SECONDS COMMAND...
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

from reward_ablation.training.around.launch.descendants import PR_SET_PDEATHSIG, adopt, end_all, prctl, send


def main() -> None:
    patience, command = float(sys.argv[1]), sys.argv[2:]
    adopt()
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0),
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: send(child.pid, number))
    threading.Thread(target=_end_with_the_pipe, args=(child, patience), daemon=True).start()
    status = child.wait()
    end_all()
    sys.exit(128 - status if status < 0 else status)


def _end_with_the_pipe(child: subprocess.Popen, patience: float) -> None:
    """End the command once the pipe is closed: asked first, killed after so many seconds."""
    while os.read(0, 1):
        pass
    send(child.pid, signal.SIGTERM)
    try:
        child.wait(patience)
    except subprocess.TimeoutExpired:
        send(child.pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
