"""Options of `sbatch` that a user may set in the site file, in an arm's resources or in the environment.

The reader of the site file and the request of a job check such options here. The executor warns of variables that have
no effect. This is a list of allowed options, because a list of refused options is never complete: `sbatch` accepts each
option by any unambiguous beginning of its name, short options joined in one word, and more options in each version.
Allowed options are passed on with their full names.
"""

from __future__ import annotations

import argparse
import difflib
import re
import shlex
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NoReturn

#: Options with a value.
_WITH_VALUE = [
    *("acctg-freq", "bb", "begin", "constraint", "core-spec", "cores-per-socket", "cpu-freq", "deadline", "delay-boot"),
    *("distribution", "exclude", "gpu-bind", "gpu-freq", "gres", "gres-flags", "hint", "licenses", "mail-type"),
    *("mail-user", "mcs-label", "mem-bind", "mincpus", "network", "nodelist", "prefer", "priority", "profile"),
    *("reservation", "sockets-per-node", "switches", "thread-spec", "threads-per-core", "time-min", "tmp"),
    *("wait-all-nodes", "wckey"),
]
#: Options with a value or without.
_WITH_OR_WITHOUT = ["exclusive", "nice", "no-kill", "propagate"]
#: Options without a value.
_ALONE = ["contiguous", "oversubscribe"]
_KNOWN = [*_WITH_VALUE, *_WITH_OR_WITHOUT, *_ALONE]
#: Long names of short options: also of options that may not be set, which `_refusal` names in full.
_SHORT = {"b": "begin", "C": "constraint", "S": "core-spec", "x": "exclude", "L": "licenses", "w": "nodelist"}
_SHORT |= {"m": "distribution", "k": "no-kill", "s": "oversubscribe", "A": "account", "D": "chdir", "G": "gpus"}
_SHORT |= {"J": "job-name", "M": "clusters", "N": "nodes", "a": "array", "c": "cpus-per-task", "d": "dependency"}
_SHORT |= {"e": "error", "n": "ntasks", "o": "output", "p": "partition", "q": "qos", "t": "time"}

#: All long options of `sbatch` in Slurm 22.05 to 26.05. The name of a plugin's option must not be the beginning of any.
_OF_SBATCH = """
    account acctg-freq array autocomplete batch bb bbf begin chdir cluster cluster-constraint clusters comment
    consolidate-segments constraint container container-id container-type context contiguous core-spec
    cores-per-socket cpu-freq cpus-per-gpu cpus-per-task deadline delay-boot dependency distribution error
    exclude exclusive export export-file external extra extra-node-info get-user-env gid gpu-bind gpu-freq gpus
    gpus-per-node gpus-per-socket gpus-per-task gres gres-flags help hint hold ignore-pbs input job-name
    kill-on-invalid-dep licenses mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mem-update
    mincpus network nice no-kill no-requeue nodefile nodelist nodes ntasks ntasks-per-core ntasks-per-gpu
    ntasks-per-node ntasks-per-socket ntasks-per-tres oom-kill-step open-mode output overcommit oversubscribe
    parsable partition power prefer priority profile propagate qos quiet reboot requeue reservation resources
    resv-ports segment signal sockets-per-node spread-job spread-segments stepmgr switches tasks-per-node
    test-only thread-spec threads-per-core time time-min tmp tres-bind tres-per-task uid usage use-min-nodes
    verbose version wait wait-all-nodes wckey wrap
"""

#: For options that are set in another way: how.
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


def check_plugin_option(name: str) -> None:
    """Raise ValueError for a name that cannot be an option of a plugin."""
    if not re.fullmatch("[A-Za-z][A-Za-z0-9_-]*", name):
        raise ValueError(f"{name!r}: is not a long name of an option; write it without --, such as container-image")
    if own := re.search(rf"(?<!\S){name}\S*", _OF_SBATCH):
        raise ValueError(f"{name}: sbatch takes this for its own option --{own[0]}; name only options of plugins here")


def sbatch_options(text: str | None, of_plugins: Sequence[str] = ()) -> dict[str, str | None]:
    """Values of options by long names, None for one without a value. A ValueError names one that may not be set."""
    try:
        words = shlex.split(text or "")
    except ValueError as error:
        raise ValueError(f"sbatch options {text!r}: {error}") from None
    for word in words:
        if "\0" in word:  # a word of a command line cannot have one
            raise ValueError(f"sbatch option {word!r}: has a NUL character; remove that character")
    known, unknown = _parser(frozenset(of_plugins)).parse_known_args(words)
    if unknown:
        raise ValueError(_refusal(unknown[0]))
    options = vars(known)
    if re.search(r"(^|,)(gres[:/])?gpu\b", options.get("gres") or ""):
        raise ValueError("sbatch option --gres: GPUs are `launch.gpus` of the study, and `gpus_by` of the site file")
    return options


def words_of(options: Mapping[str, str | None]) -> list[str]:
    """Options as words of a command line."""
    return [f"--{name}" if value is None else f"--{name}={value}" for name, value in options.items()]


def unread_variables(environment: Mapping[str, str]) -> list[str]:
    """Names of set variables that would change submissions, but do not: Slurm's commands do not get them."""
    changing = (name for name in environment if name.startswith("SBATCH_") or name == "SLURM_CLUSTERS")
    return sorted(name for name in changing if name not in DEFAULTS.values())


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(f"sbatch options: {message}")


@cache
def _parser(of_plugins: frozenset[str]) -> argparse.ArgumentParser:
    """A parser of the allowed options, with the names `of_plugins`. It takes no abbreviations."""
    parser = _Parser(add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS)
    for name in [*_KNOWN, *sorted(of_plugins)]:
        names = [f"--{name}", *(f"-{short}" for short, long in _SHORT.items() if long == name)]
        if name in _ALONE:
            parser.add_argument(*names, dest=name, action="store_const", const=None)
        else:
            parser.add_argument(*names, dest=name, nargs=None if name in _WITH_VALUE else "?")
    return parser


def _refusal(word: str) -> str:
    """Why an option may not be set, or why a word is not an option."""
    name = word.partition("=")[0]
    if not name.startswith("-"):
        return f"sbatch option {name}: not an option; options begin with --"
    long = name.removeprefix("--")
    if name[1:2] in _SHORT:
        long = _SHORT[name[1]]
        name = f"{name[:2]} (--{long})"
    if elsewhere := _ELSEWHERE.get(long):
        return f"sbatch option {name} {elsewhere}"
    near = difflib.get_close_matches(name, [f"--{known}" for known in _KNOWN], n=1, cutoff=0.8)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"sbatch option {name} may not be set; {hint}docs/slurm.md lists the options that may be set"
