"""Calls of Slurm's commands. A failure of any kind, also no answer, is a `SlurmError`.

The Slurm executor, the checks before a submission, the lists of jobs and the table of costs call `run_slurm_command`.
What they do about a failure differs: `status` goes on without Slurm, and a submission is tried again.
"""

from __future__ import annotations

import os
import re
import subprocess

#: Beginnings of variables that Slurm's commands do not get. Some change the lists that are parsed, others submissions.
_NOT_HANDED_ON = ("SQUEUE_", "SINFO_", "SCANCEL_", "SACCT_", "SCONTROL_", "SBATCH_", "SLURM_CLUSTERS")

#: Errors of a controller that may nevertheless have accepted the job, or will accept it later.
_LATER = re.compile("timed out|unable to contact|temporarily|try again|no answer within|connection", re.IGNORECASE)

#: Words of the controller in errors on any limit, also on the size of a job. Only a name beside them tells which limit
#: it is: `AssocMaxSubmitJobLimit`, `QOSMaxCpuPerJobLimit`, `QOSMinGRES`. Where none is given, they stand for the name.
UNNAMED_LIMIT = "job submit limit"
_LIMIT = re.compile(r"\b(?:(?:QOS|Assoc)\w+|[A-Z]\w+(?:Limit|PerAccount|PerUser))\b")
#: Limits that a job must reach, such as `QOSMinCpuNotSatisfied`; `preflight` and `outcome` search for them.
LEAST = re.compile(r"\bQOSMin\w+")


class SlurmError(Exception):
    """A command of Slurm is not installed, fails, or gets no answer from the controller; the message is one line."""

    @property
    def job_limit(self) -> str | None:
        """The limit on the number of jobs that made a submission fail; None where Slurm gives another reason."""
        if UNNAMED_LIMIT not in str(self):
            return None
        # Slurm says the same of a job that is no size for its quality of service, with the name of another limit, and
        # never accepts that job. Where Slurm names none, we assume the limit on jobs.
        limits = _LIMIT.findall(str(self)) or [UNNAMED_LIMIT]
        return next((limit for limit in limits if "submit" in limit.lower()), None)

    @property
    def may_pass(self) -> bool:
        """Whether the command may succeed later: the controller does not answer, or takes no more jobs now."""
        return bool(_LATER.search(str(self))) or self.job_limit is not None


def run_slurm_command(*command: str, given: str = "", timeout: float = 20.0) -> str:
    """Run a Slurm command with `given` as its input; return its output, with times in seconds since 1970."""
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
        raise SlurmError(f"{command[0]}: {_why(command[0], result.stderr) or f'exit status {result.returncode}'}")
    return result.stdout


def _why(command: str, stderr: str) -> str:
    """The error of a failed command in one line: its last line, after those of `sbatch` that say why."""
    lines = [line for line in stderr.splitlines() if line.strip() and not line.startswith("Try ")]
    why = [line for line in lines[:-1] if line.startswith("sbatch: error: ")]
    return ": ".join(re.sub(rf"^{command}: ((error|fatal): )?", "", line) for line in [*why, *lines[-1:]])
