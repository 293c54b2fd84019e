"""Which processes are those of a run that has been laid out already: what started them says so."""

from __future__ import annotations

import os
from collections.abc import Mapping

from reward_ablation.system.errors import StudyError

#: Set by a run's own launcher, and by its server's supervisor, for the processes that train it.
WORKER = "REWARD_ABLATION_WORKER"
#: Of a run on several nodes: the file that a node's launcher makes where the run has met an error that stays.
ERROR_STAYS = "REWARD_ABLATION_ERROR_STAYS"


def is_worker(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this process is one of a run's that others have started: its launcher, or its server's supervisor."""
    return WORKER in environment


def refuse_other_launchers(environment: Mapping[str, str] = os.environ) -> None:
    """Refuse to be one of several processes of a launcher that the run has not started: each would lay it out again.

    Raises
    ------
    StudyError
    """
    if "TORCHELASTIC_RUN_ID" in environment and not is_worker(environment):
        raise StudyError(
            "launch: TORCHELASTIC_RUN_ID is set, by torchrun or accelerate; start the training command by no "
            "launcher of your own"
        )
