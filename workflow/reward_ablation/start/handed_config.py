"""The config of a Snakemake start: its overrides, which all of its jobs use.

The processes of jobs, also on other nodes, read the Snakefile again, and Snakemake passes --config on to them. The main
process passes its environment's overrides on in the same way, because batch systems need not pass on the environment,
and a node's environment may have other values. All of this is encoded in letters that need no quotes, because
Snakemake's own quotes would let a shell run text inside a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reward_ablation.start.config_files import read_config
from reward_ablation.start.internals import given_config, hand_to_jobs, is_main, submits_jobs
from reward_ablation.start.overrides import (
    AUTO,
    GPUS,
    HANDED,
    decoded,
    encoded,
    overridden,
    value_at,
    variables_in,
    with_counted_gpus,
)
from reward_ablation.system.errors import StudyError


@dataclass(frozen=True)
class ConfigSource:
    """Facts on the config after all overrides."""

    #: The files and variables that the config is from, for messages.
    source: str
    #: Whether `launch.gpus` was `auto`, so that its number is that of this machine's GPUs.
    auto: bool

    def check(self, workflow: Any) -> None:
        """Refuse to submit jobs with this machine's number of GPUs; to be called in `onstart`."""
        if self.auto and submits_jobs(workflow):
            raise StudyError(AUTO)


def apply_overrides(
    config: dict[str, Any], workflow: Any, environment: Mapping[str, str], tell: Callable[[str], None]
) -> ConfigSource:
    """Apply the overrides of the environment and of --config to a config, in place, and count the GPUs for `auto`.

    `config` is as Snakemake has read it: the files with --config. The files are read anew, because their paths start
    from their folders. The jobs of `workflow` will get the same overrides, so a job uses the variables of its start
    instead of those in `environment`. `tell` gets a line for each override, and one on `auto`.
    """
    handed = config.pop(HANDED, None)
    given = dict(given_config(workflow))
    files = [Path(file) for file in workflow.configfiles]
    if files and all(file.is_file() for file in files):  # a pipe can be read once only, and has no folder
        config.clear()
        config.update(read_config(files, tell if is_main(workflow) else _silent))
    start = decoded(handed) if handed else {"variables": variables_in(environment), "given": given}
    overridden(config, start["variables"], start["given"], tell if is_main(workflow) else _silent)
    auto = value_at(config, GPUS) == "auto"
    if auto and "gpus" in start:
        config["launch"]["gpus"] = start["gpus"]
    elif auto:
        start["gpus"] = with_counted_gpus(config, tell)
    if is_main(workflow):
        hand_to_jobs(workflow, f"{HANDED}={encoded(start)}")
    return ConfigSource(" + ".join([*map(str, workflow.configfiles), *start["variables"]]), auto)


def _silent(line: str) -> None:
    """Tell nothing: the main process has told it."""
