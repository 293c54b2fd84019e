"""Slurm's own commands, asked so that an answer is a value and no answer is one exception."""

from __future__ import annotations

import os
import re
import subprocess

#: A user's own settings of how to list jobs and nodes: these lists are read by a program.
_LISTINGS = ("SQUEUE_", "SINFO_", "SCANCEL_", "SACCT_", "SCONTROL_")
#: And of submissions, such that what is submitted is not one job that runs.
_SUBMISSION = {"SBATCH_ARRAY_INX", "SBATCH_CLUSTERS", "SBATCH_DEPENDENCY", "SBATCH_TEST_ONLY", "SBATCH_WAIT"}


class SlurmError(Exception):
    """A command of Slurm is not here, fails, or gets no answer from the controller; the message is one line."""


def ask(*command: str, given: str = "", timeout: float = 20.0) -> str:
    """What a Slurm command prints; times in seconds since 1970.

    Raises
    ------
    SlurmError
        The command is not here, fails or takes longer than `timeout` seconds.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_LISTINGS)}
    environment = {name: value for name, value in environment.items() if name not in _SUBMISSION}
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
        lines = [line for line in result.stderr.splitlines() if line.strip() and not line.startswith("Try ")]
        told = re.sub(rf"^{command[0]}: ((error|fatal): )?", "", (lines or [f"exit status {result.returncode}"])[-1])
        raise SlurmError(f"{command[0]}: {told}")
    return result.stdout
