"""Slurm's own commands, asked so that an answer is a value and no answer is one exception."""

from __future__ import annotations

import os
import re
import subprocess

#: A user's own settings of how to list jobs and nodes (a program reads these lists) and of what to submit. What may be
#: set there is on the command line: `options.environment_options`.
_NOT_HANDED_ON = ("SQUEUE_", "SINFO_", "SCANCEL_", "SACCT_", "SCONTROL_", "SBATCH_", "SLURM_CLUSTERS")


class SlurmError(Exception):
    """A command of Slurm is not here, fails, or gets no answer from the controller; the message is one line."""


def ask(*command: str, given: str = "", timeout: float = 20.0) -> str:
    """What a Slurm command prints, within `timeout` seconds; times in seconds since 1970; raises SlurmError."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_HANDED_ON)}
    environment["SLURM_TIME_FORMAT"] = "%s"
    try:
        result = subprocess.run(
            command,
            env=environment,
            input=given,
            capture_output=True,
            encoding="utf-8",
            errors="replace",  # somebody's job may be called anything
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
    """What a command that failed says, in one line.

    The last line says what failed. The lines of `sbatch` before it say why, such as the limit that is reached.
    """
    lines = [line for line in stderr.splitlines() if line.strip() and not line.startswith("Try ")]
    why = [line for line in lines[:-1] if line.startswith("sbatch: error: ")]
    return ": ".join(re.sub(rf"^{command}: ((error|fatal): )?", "", line) for line in [*why, *lines[-1:]])
