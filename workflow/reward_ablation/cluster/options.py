"""Options of `sbatch` that a user may set, in the site file, in an arm's resources or in the environment.

A list of what is taken, because a list of what is refused is never complete: `sbatch` takes each option by any
unambiguous beginning of its name, short options in one word, and more options in each version. What is taken is handed
on by its full name.
"""

from __future__ import annotations

import argparse
import difflib
import re
import shlex
from collections.abc import Mapping
from functools import cache
from typing import NoReturn

#: Options with a value.
_WITH_VALUE = [
    *("acctg-freq", "bb", "begin", "constraint", "core-spec", "cores-per-socket", "cpu-freq", "deadline", "delay-boot"),
    *("exclude", "extra", "gpu-freq", "gres", "gres-flags", "hint", "licenses", "mail-type", "mail-user", "mcs-label"),
    *("mincpus", "network", "nodelist", "prefer", "priority", "profile", "reservation", "sockets-per-node", "switches"),
    *("thread-spec", "threads-per-core", "time-min", "tmp", "wait-all-nodes", "wckey"),
]
#: Options with a value or without.
_WITH_OR_WITHOUT = ["exclusive", "nice", "propagate"]
#: Options without a value.
_ALONE = ["contiguous", "oversubscribe"]
_SHORT = {"begin": "b", "constraint": "C", "core-spec": "S", "exclude": "x", "licenses": "L", "nodelist": "w"}
_SHORT |= {"oversubscribe": "s"}
_KNOWN = [*_WITH_VALUE, *_WITH_OR_WITHOUT, *_ALONE]

#: Where to write what these options say.
_ELSEWHERE = {
    **dict.fromkeys(("account", "partition", "qos"), "is a key of the site file"),
    "time": "is `hours` in the site file",
    "mem": "is `mem_gb` in the site file",
    "cpus-per-task": "is `cpus` in the site file",
    **dict.fromkeys(("gpus", "gpus-per-node"), "is `launch.gpus` of the study and `gpus_by` of the site file"),
    **dict.fromkeys(("nodes", "ntasks", "ntasks-per-node"), "is `launch.nodes` of the study"),
    **dict.fromkeys(("requeue", "no-requeue"), "is `slurm-study-requeue` in the profile"),
    "signal": "is not needed: a run saves before its time limit",
    **dict.fromkeys(("comment", "job-name", "output", "error", "chdir", "export"), "is set by the workflow"),
}

#: Environment variables by which a user chooses the account, the partition and the quality of service.
DEFAULTS = {"account": "SBATCH_ACCOUNT", "partition": "SBATCH_PARTITION", "qos": "SBATCH_QOS"}

#: Options that `sbatch` also reads from the environment, as SBATCH_ACCTG_FREQ and so on, and that may be set there. Not
#: SBATCH_GRES, which could add GPUs to any job.
_OF_ENVIRONMENT = [
    *("acctg-freq", "constraint", "core-spec", "delay-boot", "exclusive", "gpu-freq", "gres-flags", "hint", "network"),
    *("profile", "reservation", "thread-spec", "threads-per-core", "wait-all-nodes", "wckey"),
]


def sbatch_options(text: str | None) -> dict[str, str | None]:
    """Options in a text, by their long names; the value of an option without one is None.

    Parameters
    ----------
    text : str or None
        As on a command line of `sbatch`.

    Raises
    ------
    ValueError
        An option is not among those that may be set, or the text cannot be split into words.
    """
    try:
        words = shlex.split(text or "")
    except ValueError as error:
        raise ValueError(f"sbatch options {text!r}: {error}") from None
    for word in words:
        if "\0" in word:  # no word of a command line has one
            raise ValueError(f"sbatch option {word!r}: has a NUL character; remove that character")
    known, unknown = _parser().parse_known_args(words)
    if unknown:
        raise ValueError(_refusal(unknown[0]))
    options = {name.replace("_", "-"): value for name, value in vars(known).items()}
    if re.search(r"(^|,)(gres[:/])?gpu\b", options.get("gres") or ""):
        raise ValueError("sbatch option --gres: GPUs are `launch.gpus` of the study, and `gpus_by` of the site file")
    return options


def words_of(options: Mapping[str, str | None]) -> list[str]:
    """Options as words of a command line."""
    return [f"--{name}" if value is None else f"--{name}={value}" for name, value in options.items()]


def environment_options(environment: Mapping[str, str]) -> dict[str, str | None]:
    """Options that the environment sets, by their long names."""
    values = {name: environment.get(_variable(name)) for name in _OF_ENVIRONMENT}
    alone = {name: None for name, value in values.items() if value == "" and name in _WITH_OR_WITHOUT}
    return {name: value for name, value in values.items() if value} | alone


def unread_variables(environment: Mapping[str, str]) -> list[str]:
    """Names of set variables that would change what a submission is; Slurm's commands do not get them."""
    read = {*DEFAULTS.values(), *map(_variable, _OF_ENVIRONMENT)}
    return sorted(
        name for name in environment if (name.startswith("SBATCH_") and name not in read) or name == "SLURM_CLUSTERS"
    )


def _variable(name: str) -> str:
    return f"SBATCH_{name.upper().replace('-', '_')}"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(f"sbatch options: {message}")


@cache
def _parser() -> argparse.ArgumentParser:
    parser = _Parser(add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS)
    for name in _KNOWN:
        names = [f"--{name}", *([f"-{_SHORT[name]}"] if name in _SHORT else [])]
        if name in _ALONE:
            parser.add_argument(*names, action="store_const", const=None)
        else:
            parser.add_argument(*names, nargs="?" if name in _WITH_OR_WITHOUT else None)
    return parser


def _refusal(word: str) -> str:
    """Why an option, or a word that is none, is not taken."""
    name = word.partition("=")[0]
    if not name.startswith("-"):
        return f"sbatch option {name}: not an option; options begin with --"
    if elsewhere := _ELSEWHERE.get(name.removeprefix("--")):
        return f"sbatch option {name} {elsewhere}"
    near = difflib.get_close_matches(name, [f"--{known}" for known in _KNOWN], n=1, cutoff=0.8)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"sbatch option {name} is not to be set; {hint}docs/slurm.md lists those that may be"
