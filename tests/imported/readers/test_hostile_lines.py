"""Lines that mean harm: each reader of lines reads or refuses them, whatever stands in place of a value."""

import json
from itertools import cycle
from pathlib import Path

import pytest

from reward_ablation.imported.readers import reader
from reward_ablation.imported.rows import checked
from reward_ablation.system.errors import StudyError

FILES = Path(__file__).parents[1] / "files"
TRACES = "rollouts/step_1/train/effective/traces.jsonl"
CHOICES = "samples_choice_2026-11-28T10-19-19.869962.jsonl"


def changed(record, place, value):
    """A record with another value in a place."""
    record = inner = json.loads(json.dumps(record))
    for part in place[:-1]:
        inner = inner[part]
    inner[place[-1]] = value
    return record


def places(value, place=()):
    """All keys and indices that lead to a value within a value."""
    yield place
    for part in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from places(value[part], (*place, part))


@pytest.mark.parametrize(
    ("name", "kind", "file", "options"),
    [
        ("verl", "rollouts", "1.jsonl", {}),
        ("verifiers", "answers", "results.jsonl", {"metric": "correct"}),
        ("prime_rl", "rollouts", TRACES, {}),
        ("lm_eval", "answers", CHOICES, {"metric": "acc"}),
    ],
)
def test_values_of_other_types(tmp_path, name, kind, file, options):
    """Each value of a line, replaced by something else in turn, is read or refused."""
    lines = next((FILES / name).rglob(file)).read_text().splitlines()
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    strange = [None, -1, 10**30, 1e308, "", "x", [], [[]], [None], {}, {"": None}, [{"role": [1]}], {"type": [1]}]
    values, record = cycle([*strange, float("nan"), "\ud800"]), json.loads(lines[1])
    refused = []
    for place in places(record):
        if place[-1:] and "timing" not in place and "config" not in place:
            other = json.dumps(changed(record, place, next(values)))
            (tmp_path / file).write_text("\n".join([lines[0], other, *lines[2:]]))
            try:
                checked(kind, getattr(reader(name), f"read_{kind}")(tmp_path, options).table, str(tmp_path))
            except StudyError as error:
                refused.append(str(error))
    assert refused
    assert all(str(tmp_path) in message and "\n" not in message for message in refused)
