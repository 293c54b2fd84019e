"""The batch script of a Slurm job, which runs the shell commands of rules in turn, and the files that it leaves.

The executor plugin for Slurm submits the script, and later reads from the files that it left how each command ended.
Slurm itself knows only the end of the whole job.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, StrictUndefined, Template

from reward_ablation.system.errors import StudyError
from reward_ablation.system.exit_status import GOES_ON

#: Libraries whose number of threads is set by `..._NUM_THREADS`, as Snakemake does for a command.
LIBRARIES = ("OMP", "GOTO", "OPENBLAS", "MKL", "NUMEXPR")

#: Environment variable with the number of commands that a Slurm job runs; set only if there are several.
#: `training.around.slurm_job` reads it.
PARTS_VARIABLE = "STUDY_JOB_PARTS"


@dataclass(frozen=True)
class Part:
    """The part of a Slurm job that does one job of Snakemake. Paths are relative to Snakemake's working folder."""

    command: str  # text for bash
    inputs: Sequence[str]  # files that must exist before the command starts
    outputs: Sequence[str]  # files whose folders are made, including logs
    threads: int
    statuses: Path  # folder where the script writes the command's exit status to NUMBER.status, by Slurm's job number
    benchmark: str | None = None  # file for the wall time of a command that ends well

    @property
    def folders(self) -> list[str]:
        """Folders that must exist before the command starts."""
        return sorted({os.path.dirname(file) or "." for file in [*self.outputs, self.benchmark or ""]})


def batch_script(parts: Sequence[Part], working_folder: str, patience: int) -> str:
    """The script of a Slurm job. It ends with the first command that fails; after SIGTERM it starts no further command.

    If Slurm starts the script again, it leaves out commands that have ended with 0.
    `patience` is the number of seconds to wait until a network file system shows the inputs.
    """
    constants = {"goes_on": GOES_ON, "libraries": LIBRARIES, "parts_variable": PARTS_VARIABLE}
    return _template().render(parts=parts, working_folder=working_folder, patience=patience, **constants)


@cache
def _template() -> Template:
    """`job.sh.j2`. Its filters `word` and `words` quote one text, or several, for the shell."""
    environment = Environment(trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined, autoescape=False)
    environment.filters["word"] = lambda text: shlex.quote(str(text))
    environment.filters["words"] = shlex.join
    return environment.from_string(files(__package__).joinpath("job.sh.j2").read_text(encoding="utf-8"))


def status_of_part(statuses: Path, number: str) -> int | None:
    """Exit status of a part's command in Slurm's job `number`; None if the command has not ended, or left none."""
    try:
        return int((statuses / f"{number}.status").read_text())
    except (OSError, ValueError):
        return None


def output_pattern(folder: Path) -> str:
    """The pattern of a job's log for `sbatch --output`, in which Slurm replaces %j by the job's number, and %% by %."""
    if "\\" in str(folder):  # Slurm then replaces nothing
        why = "Slurm cannot write logs into a folder whose path has a \\"
        raise StudyError(f"{folder}: {why}; start the study in another folder")
    return str(folder).replace("%", "%%") + "/%j.log"


def number_in(answer: str) -> str | None:
    """Number of the job in the output of `sbatch --parsable`: `NUMBER` or `NUMBER;CLUSTER`, below any other lines."""
    numbers = re.findall(r"^(\d+)(?:;\S*)?$", answer, flags=re.MULTILINE)
    return numbers[-1] if numbers else None
