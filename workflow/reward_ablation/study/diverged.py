"""Record of a run that diverged: its model means nothing, so that the study goes on without the run.

A start leaves out a run with such a record of its present spec, code and inputs: the run would diverge again. Another
learning rate is another key, and so another folder without a record.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reward_ablation.study.run_folder import DIVERGED
from reward_ablation.system.files import write_json

#: What a message says of the next start.
GOES_ON = "start the workflow again, which goes on without this run"


def record_divergence(run_dir: Path, made: dict[str, Any], step: int, what: str) -> None:
    """Write the record of a run that diverged. `what` says what was not finite at this step.

    `made` has `seed`, `spec`, `code`, `inputs` and `modules`, as in `run.json`.
    """
    kept = {name: made[name] for name in ("seed", "spec", "code", "inputs", "modules") if name in made}
    write_json({**kept, "step": step, "what": what}, run_dir / DIVERGED)
