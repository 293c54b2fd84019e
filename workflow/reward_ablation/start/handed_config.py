"""The config of a Snakemake start, which all of its jobs use, whatever their environment says.

Commands that need the whole study read the config from a file in the results folder. A Snakemake that another executor
starts for a job, perhaps on another node, reads the Snakefile again, and takes the config from the same file: batch
systems need not pass on the environment, and Snakemake's own quotes around --config would let a shell run text inside a
value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reward_ablation.start.config_files import read_config
from reward_ablation.start.internals import given_config, hand_to_jobs, submits_jobs
from reward_ablation.start.overrides import (
    AUTO,
    GIVEN,
    overridden,
    variables_in,
    with_counted_gpus,
)
from reward_ablation.system.errors import StudyError, storage_errors
from reward_ablation.system.files import atomic_path
from reward_ablation.system.strict_text import load_json

#: The file, in the results folder; and the key of --config by which a job's Snakemake gets its path. A config may have
#: absolute paths, and logs are the one folder of a study that is not for sharing.
FILE, HANDED = "logs/config.json", "reward_ablation_config"


@dataclass(frozen=True)
class StartConfig:
    """The config after all overrides."""

    config: dict[str, Any]
    #: The files and variables that the config is from, for messages.
    source: str
    #: Whether `launch.gpus` was `auto`, so that its number is that of this machine's GPUs.
    auto: bool

    def hand_on(self, workflow: Any, results: Path) -> None:
        """Write the config for the jobs. To be called in `onstart`.

        Refuses to submit jobs with this machine's number of GPUs.
        """
        if self.auto and submits_jobs(workflow):
            raise StudyError(AUTO)
        with storage_errors(results), atomic_path(results / FILE, durable=False) as temporary:
            temporary.write_text(json.dumps(self.config), encoding="utf-8")  # in order: an arm's place counts
        hand_to_jobs(workflow, f"{HANDED}={results / FILE}")  # a folder of the study needs no quotes


def config_of_start(
    config: dict[str, Any], workflow: Any, environment: Mapping[str, str], tell: Callable[[str], None]
) -> StartConfig:
    """Apply the overrides of the environment and of --config to a config, in place, and count the GPUs for `auto`.

    `config` is as Snakemake has read it: the files with --config. The files are read anew, because their paths start
    from their folders. `tell` gets a line for each override, and one on `auto`. In a job, the config is that of its
    start.
    """
    if file := config.pop(HANDED, None):
        config.clear()
        config.update(load_json(Path(file).read_bytes()))
        return StartConfig(config, str(file), auto=False)
    files = [Path(file) for file in workflow.configfiles]
    given = json.loads(environment[GIVEN]) if GIVEN in environment else dict(given_config(workflow))
    if files and all(file.is_file() for file in files):  # a pipe can be read once only, and has no folder
        config.clear()
        config.update(read_config(files, tell))
    variables = variables_in(environment)
    overridden(config, variables, given, tell)
    auto = with_counted_gpus(config, tell) is not None
    return StartConfig(config, " + ".join([*map(str, workflow.configfiles), *variables]), auto)
