"""The batch script of a Slurm job, which runs the shell commands of rules one after the other."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from reward_ablation.system.exit_status import GOES_ON

#: Libraries whose number of threads is set by `..._NUM_THREADS`, as Snakemake does for a command.
THREADS = ("OMP", "GOTO", "OPENBLAS", "MKL", "NUMEXPR")

#: Environment variable with the number of commands that a Slurm job runs; set only if there are several.
PARTS = "STUDY_JOB_PARTS"

#: The job's number, in the words of its own shell.
_NUMBER = '"$SLURM_JOB_ID"'

#: SIGTERM ends the command, which saves its work, but not this shell: for Slurm the job ends with the shell. A job that
#: Slurm starts again skips the commands that are done.
_BEGIN = """#!/usr/bin/env bash
stopped=
trap stopped=yes TERM
cd -- {folder} || exit {goes_on}
[ -w "${{TMPDIR:-/tmp}}" ] || unset TMPDIR
[ "${{SLURM_RESTART_COUNT:-0}}" -gt 0 ] || rm -f -- {statuses}

wait_for() {{
    local file limit=$((SECONDS + {patience}))
    for file; do
        until [ -e "$file" ]; do
            [ $SECONDS -lt $limit ] || {{ echo "error: still missing after {patience} s: $file" >&2; exit {goes_on}; }}
            sleep 1
        done
    done
}}
"""

_PART = """
[ -z "$stopped" ] || exit {goes_on}
status={status}
if [ "$(cat "$status" 2>/dev/null)" != 0 ]; then
rm -f -- "$status"
begun=$(date +%s%3N)
(
wait_for {inputs}
mkdir -p -- {folders} || exit {goes_on}
export {variables}
{command}
)
ended=$?
{benchmark}
echo $ended > "$status.new" && mv -f -- "$status.new" "$status"
[ $ended -eq 0 ] || exit $ended
fi
"""

#: Writes the wall time of a command in Snakemake's format of a benchmark, with the only column that the workflow reads.
_BENCHMARK = """lasted=$(($(date +%s%3N) - begun))
[ $ended -ne 0 ] || printf 's\\n%d.%03d\\n' $((lasted / 1000)) $((lasted % 1000)) > {file}"""


@dataclass(frozen=True)
class Part:
    """The part of a Slurm job that does one job of Snakemake. Paths are relative to Snakemake's working folder."""

    command: str  # text for bash
    inputs: Sequence[str]  # files that must exist before the command starts
    outputs: Sequence[str]  # files whose folders are made, including logs
    threads: int
    verdicts: Path  # folder for the exit status of the command
    benchmark: str | None = None  # file for the wall time of a command that ends well


def batch_script(parts: Sequence[Part], folder: str, patience: int) -> str:
    """The script of a Slurm job. The job ends with the first command that fails.

    `folder` is the working folder of all commands. `patience` is the number of seconds to wait until a network file
    system shows the inputs. Each command's exit status is written to a file as soon as the command has ended: see
    `submission.verdict`.
    """
    statuses = " ".join(map(_status, parts))
    begin = _BEGIN.format(folder=shlex.quote(folder), statuses=statuses, patience=patience, goes_on=GOES_ON)
    several = f"export {PARTS}={len(parts)}\n" if len(parts) > 1 else ""
    return begin + several + "".join(map(_lines_of, parts))


def _lines_of(part: Part) -> str:
    folders = sorted({os.path.dirname(file) or "." for file in [*part.outputs, part.benchmark or ""]})
    benchmark = _BENCHMARK.format(file=shlex.quote(part.benchmark)) if part.benchmark else ":"
    return _PART.format(
        goes_on=GOES_ON,
        status=_status(part),
        inputs=_words(part.inputs),
        folders=_words(folders),
        variables=" ".join(f"{name}_NUM_THREADS={part.threads}" for name in THREADS),
        command=part.command,
        benchmark=benchmark,
    )


def _status(part: Part) -> str:
    """The file for the exit status of a part, as a word for the shell."""
    return f"{shlex.quote(str(part.verdicts))}/{_NUMBER}.status"


def _words(texts: Iterable[str]) -> str:
    return " ".join(map(shlex.quote, texts))
