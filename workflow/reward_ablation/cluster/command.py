"""Runs Slurm's commands. A failure of any kind, also no answer, is a `SlurmError`."""

from __future__ import annotations

import os
import re
import subprocess

#: Variables that Slurm's commands do not get: they change lists, which this code has to parse, and submissions. The
#: allowed variables of `sbatch` become options of the command line: `options.environment_options`.
_NOT_HANDED_ON = ("SQUEUE_", "SINFO_", "SCANCEL_", "SACCT_", "SCONTROL_", "SBATCH_", "SLURM_CLUSTERS")


class SlurmError(Exception):
    """A command of Slurm is not installed, fails, or gets no answer from the controller; the message is one line."""


def run_slurm_command(*command: str, given: str = "", timeout: float = 20.0) -> str:
    """Run a Slurm command and return its output. Times in the output are seconds since 1970.

    `given` is text for the command's stdin, and `timeout` is in seconds. Raises SlurmError if the command is not
    installed, fails, or does not end in time.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_HANDED_ON)}
    environment["SLURM_TIME_FORMAT"] = "%s"
    try:
        result = subprocess.run(
            command,
            env=environment,
            input=given,
            capture_output=True,
            encoding="utf-8",
            errors="replace",  # other people's jobs may have any bytes in their names
            timeout=timeout,
        )
    except FileNotFoundError:
        raise SlurmError(f"{command[0]}: no such command; is Slurm installed on this machine?") from None
    except subprocess.TimeoutExpired:
        raise SlurmError(f"{command[0]}: no answer within {timeout:.0f} s") from None
    except OSError as error:
        raise SlurmError(f"{command[0]}: {error.strerror}") from None
    if result.returncode:
        raise SlurmError(f"{command[0]}: {_told(command[0], result.stderr) or f'exit status {result.returncode}'}")
    return result.stdout


def _told(command: str, stderr: str) -> str:
    """The error of a failed command in one line.

    The last line of stderr says what failed. The lines of `sbatch` before it say why, such as the limit that is
    reached.
    """
    lines = [line for line in stderr.splitlines() if line.strip() and not line.startswith("Try ")]
    why = [line for line in lines[:-1] if line.startswith("sbatch: error: ")]
    return ": ".join(re.sub(rf"^{command}: ((error|fatal): )?", "", line) for line in [*why, *lines[-1:]])
