"""Requests to endpoints that the scoring of a file of answers has made, in a record beside the scores.

The record sums up all scorings of the file: where the code of a metric has changed, answers of endpoints are kept, and
what they cost has been paid once. No job of Snakemake asks for the record.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from reward_ablation.rewards.asking.usage import COUNTS, Usage, counted
from reward_ablation.system.files import write_json


def record_of(scores: Path) -> Path:
    """The record beside a file of scores."""
    return scores.with_suffix(".json")


@contextmanager
def counting(scores: Path) -> Iterator[Path]:
    """A folder to count requests in, as long as the block lasts; then they are added to the record of the scores.

    The counts of a scoring that has failed or was killed stay in a hidden folder, and the next one adds them.
    """
    attempts = scores.with_name(f".{scores.stem}.requests.tmp")
    yield attempts / uuid.uuid4().hex
    usage = summed([_recorded(record_of(scores)), *map(counted, attempts.glob("*"))])
    if usage:
        write_json({"requests": usage}, record_of(scores))
    shutil.rmtree(attempts, ignore_errors=True)


def summed(usages: Iterable[Usage]) -> Usage:
    """Sums of counts by model."""
    sums: dict[str, Counter[str]] = {}
    for usage in usages:
        for model, numbers in usage.items():
            sums.setdefault(model, Counter()).update(numbers)
    return {model: {name: sums[model][name] for name in COUNTS} for model in sorted(sums)}


def _recorded(path: Path) -> Usage:
    """Counts of earlier scorings; none where there is no record, or a damaged one."""
    try:
        requests: Usage = json.loads(path.read_bytes())["requests"]
        return {model: {name: int(numbers[name]) for name in COUNTS} for model, numbers in requests.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
