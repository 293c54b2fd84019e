"""The config that counts: of the file, the environment and the command line, and the same in all jobs of a start.

Snakemake reads the Snakefile again in the processes of jobs, on other nodes too, and hands them what --config said.
What the environment said goes with it: batch systems need not hand the environment on, and a node's may say something
else. What --config said goes the same way, in letters that need no quotes: Snakemake's own quotes let a shell run what
stands in a value.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from snakemake.utils import update_config

from reward_ablation.config.environment import override, value_at, variables_in
from reward_ablation.config.secrets import without_secrets
from reward_ablation.start.internals import given_config, hand_to_jobs, is_main, submits_jobs
from reward_ablation.system.errors import StudyError
from reward_ablation.system.gpus import what_is_here
from reward_ablation.system.plain_values import printable

#: The key of --config by which jobs get what this start has found.
HANDED = "reward_ablation_overrides"

#: The place of the key that may be `auto`.
GPUS = ("launch", "gpus")


@dataclass(frozen=True)
class Settled:
    """Where the config that counts is from, for messages, and whether its number of GPUs is what this machine has."""

    source: str
    auto: bool

    def check(self, workflow: Any) -> None:
        """Refuse to submit jobs that would take what is on this machine; to be called in `onstart`.

        Raises
        ------
        StudyError
        """
        if self.auto and submits_jobs(workflow):
            raise StudyError(
                "launch.gpus: auto is what this machine has, and jobs are submitted to others; say how many GPUs a run "
                "takes (0 is the CPU)"
            )


def settle(
    config: dict[str, Any], workflow: Any, environment: Mapping[str, str], tell: Callable[[str], None]
) -> Settled:
    """Set in a config, in place, what the environment says, and the GPUs that are here for `auto`; --config wins.

    Parameters
    ----------
    config : dict
        As Snakemake has read it: the file with --config.
    workflow : snakemake.workflow.Workflow
    environment : mapping of str to str
    tell : function of a line

    Raises
    ------
    StudyError
        A variable cannot be taken, or the GPUs cannot be counted.
    """
    handed = config.pop(HANDED, None)
    given = dict(given_config(workflow))
    start = decoded(handed) if handed else {"variables": variables_in(environment), "given": given}
    settings = override(config, start["variables"])
    update_config(config, start["given"])
    auto = value_at(config, GPUS) == "auto"
    if auto and not handed:
        start["gpus"], found = what_is_here()
        tell(f"launch.gpus: auto is {start['gpus']} here: {found}")
    if auto:
        config["launch"]["gpus"] = start["gpus"]
    if is_main(workflow):
        hand_to_jobs(workflow, f"{HANDED}={encoded(start)}")
        for variable, path, value in settings:
            wins = "" if path == GPUS or value_at(config, path) == value else "; --config says otherwise, and counts"
            nested = reduce(lambda below, key: {key: below}, reversed(path), value)
            shown = value_at(without_secrets(nested), path)
            tell(printable(f"{'.'.join(path)}: {json.dumps(shown, default=str)}, by {variable}{wins}"))
    return Settled(" + ".join([*map(str, workflow.configfiles), *start["variables"]]), auto)


def encoded(values: Any) -> str:
    """JSON in letters that neither a shell nor Snakemake changes."""
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode()


def decoded(text: str) -> Any:
    """What was encoded."""
    return json.loads(base64.urlsafe_b64decode(text))
