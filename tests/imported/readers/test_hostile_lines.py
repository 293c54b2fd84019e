"""Lines that are damaged or mean harm: each reader of lines gives one line with the file, what, and what to do."""

import json
from contextlib import suppress
from itertools import cycle
from pathlib import Path

import pytest

from reward_ablation.imported.readers import reader
from reward_ablation.imported.rows import checked
from reward_ablation.system.errors import StudyError

FILES = Path(__file__).parents[1] / "files"

#: Format, kind, a file that is right, the name that the reader looks for, a text in it, and a number in it.
CASES = {
    "verl": ("rollouts", "verl/rollouts/1.jsonl", "1.jsonl", ("output",), ("acc",)),
    "verifiers": ("answers", "verifiers/results.jsonl", "results.jsonl", ("answer",), ("metrics", "brief")),
    "prime_rl": (
        "rollouts",
        "prime_rl/rollouts/step_1/train/effective/traces.jsonl",
        "rollouts/step_1/train/effective/traces.jsonl",
        ("traces", 0, "task", "data", "answer"),
        ("traces", 0, "rewards", "brief", "score"),
    ),
    "lm_eval": (
        "answers",
        "lm_eval/samples_choice_2026-11-28T10-19-19.869962.jsonl",
        "samples_x.jsonl",
        ("target",),
        ("acc_norm",),
    ),
}


def changed(lines, place, value):
    """The lines with another value in the second one."""
    record = inner = json.loads(lines[1])
    for part in place[:-1]:
        inner = inner[part]
    inner[place[-1]] = value
    return [lines[0], json.dumps(record), *lines[2:]]


def places(value, place=()):
    """All keys and indices that lead to a value within a value."""
    yield place
    for part in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from places(value[part], (*place, part))


def table_of(name, lines, folder):
    kind, _, file, *_ = CASES[name]
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text("\n".join(lines))
    options = {"metric": {"verifiers": "correct", "lm_eval": "acc"}[name]} if kind == "answers" else {}
    return checked(kind, getattr(reader(name), f"read_{kind}")(folder, options).table, str(folder))


def refusal(name, lines, folder):
    with pytest.raises(StudyError) as error:
        table_of(name, lines, folder)
    assert str(folder) in str(error.value)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.fixture(params=CASES)
def case(request):
    _, file, _, text, number = CASES[request.param]
    return request.param, (FILES / file).read_text().splitlines(), text, number


def test_wrong_lines(case, tmp_path):
    name, lines, text, number = case
    for bad, message in [
        ([lines[0], lines[1][:-9]], "line 2: not JSON"),
        ([lines[0], "{}"], "line 2: no "),
        (changed(lines, number, float("nan")), "is nan, not a finite number"),
        (changed(lines, text, "\ud800"), r"half a character (a surrogate), '\ud800'; take it out"),
    ]:
        assert message in refusal(name, bad, tmp_path), message


def test_values_of_other_types(case, tmp_path):
    """Each value of a line, replaced by something else in turn, is read or refused."""
    name, lines, *_ = case
    strange = cycle(
        [None, -1, 10**30, 1e308, "", "x", [], [[]], [None], {}, {"": None}, [{"role": [1]}], {"type": [1]}]
    )
    for place in places(json.loads(lines[1])):
        if place[-1:] and "timing" not in place and "config" not in place:
            with suppress(StudyError):
                table_of(name, changed(lines, place, next(strange)), tmp_path)
