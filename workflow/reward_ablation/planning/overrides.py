"""The config that counts: of the file, the environment and the command line, and the same in all jobs of a start.

Snakemake reads the Snakefile again in the processes of jobs, on other nodes too, and hands them what --config said.
What the environment said goes with it: batch systems need not hand the environment on, and a node's may say something
else.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

from snakemake.utils import update_config

from reward_ablation.planning.internals import given_config, hand_to_jobs, is_main
from reward_ablation.study.environment import override, value_at, variables_in

#: The key of --config by which jobs get what this start has found.
HANDED = "reward_ablation_overrides"


def settle(config: dict[str, Any], workflow: Any, environment: Mapping[str, str], tell: Callable[[str], None]) -> str:
    """Set in a config, in place, what the environment says; --config wins.

    Parameters
    ----------
    config : dict
        As Snakemake has read it: the file with --config.
    workflow : snakemake.workflow.Workflow
    environment : mapping of str to str
    tell : function of a line

    Returns
    -------
    str
        Where the config is from, for messages.

    Raises
    ------
    StudyError
        A variable cannot be taken.
    """
    handed = config.pop(HANDED, None)
    given = {key: value for key, value in given_config(workflow).items() if key != HANDED}
    variables = variables_in(environment) if is_main(workflow) else decoded(handed)
    settings = override(config, variables)
    update_config(config, given)
    if is_main(workflow):
        hand_to_jobs(workflow, f"{HANDED}={encoded(variables)}")
        for variable, path, value in settings:
            wins = "" if value_at(config, path) == value else "; --config says otherwise, and counts"
            tell(f"{'.'.join(path)}: {json.dumps(value, default=str)}, by {variable}{wins}")
    return " + ".join([*map(str, workflow.configfiles), *variables])


def encoded(values: Any) -> str:
    """JSON in letters that neither a shell nor Snakemake changes."""
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode()


def decoded(text: str | None) -> Any:
    """What was encoded; nothing where nothing was handed over."""
    return json.loads(base64.urlsafe_b64decode(text)) if text else {}
