"""Record, beside a file of scores, of the code that made the scores, and of the requests to judges, for the costs.

The record sums up the requests of all scorings of the file. A metric whose code has changed scores the file again, but
the endpoints' answers are kept, and were paid for once. The command of the rule `score` writes the record, and the
report's table of costs reads it. No Snakemake job has it as its input.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from reward_ablation.rewards.request_records import COUNTS, Usage, counted
from reward_ablation.study.run_folder import LOCK
from reward_ablation.system.files import write_json
from reward_ablation.system.locks import wait_for


def record_of(scores: Path) -> Path:
    """The record beside a file of scores."""
    return scores.with_suffix(".json")


@contextmanager
def recording(scores: Path, code: str) -> Iterator[Path]:
    """Give a folder to count requests in; after the block, the record gets the counts and the digest of the code."""
    # The counts of a scoring that failed or was killed stay in a hidden folder, and the next scoring adds them. One
    # process at a time scores a file: two would add each other's counts.
    attempts = scores.with_name(f".{scores.stem}.requests.tmp")
    with wait_for(attempts / LOCK, "score"):
        yield attempts / uuid.uuid4().hex
        usage = summed([_recorded(record_of(scores)), *map(counted, attempts.glob("*"))])
        write_json({"code": code, **({"requests": usage} if usage else {})}, record_of(scores))
        shutil.rmtree(attempts, ignore_errors=True)


def summed(usages: Iterable[Usage]) -> Usage:
    """Sum of the counts of each model."""
    sums: dict[str, Counter[str]] = {}
    for usage in usages:
        for model, numbers in usage.items():
            sums.setdefault(model, Counter()).update(numbers)
    return {model: {name: sums[model][name] for name in COUNTS} for model in sorted(sums)}


def _recorded(path: Path) -> Usage:
    """Counts of earlier scorings; empty where the record is missing or damaged."""
    try:
        requests: Usage = json.loads(path.read_bytes())["requests"]
        return {model: {name: int(numbers[name]) for name in COUNTS} for model, numbers in requests.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
