"""The record of looks: the seeds that follow from it, and the record after changes of the config."""

import json
from pathlib import Path

import pytest

from configs import CONFIG, refusal
from reward_ablation.start.declarations import Declarations, record_question
from reward_ablation.study.answers_record import read_record
from reward_ablation.study.looks import ContrastAtLook, Look, recorded_looks
from reward_ablation.study.resolve import resolve
from reward_ablation.system.files import write_json

SET = CONFIG["data"]["evaluation"]["test"]
NUMBERS = {"estimate": 0.1, "low": -0.2, "high": 0.4, "p": 0.3, "p_holm": 0.6, "boundary": 0.01}


@pytest.fixture
def looking(config):
    """A config with looks and three arms, of which b and c are compared with a, and d with no other."""
    config["seeds"] = {"looks": [2, 3, 5], "stop": "obrien_fleming"}
    for name, weight in (("c", 0.25), ("d", 0.125)):
        config["arms"]["arms"][name] = {"weights": {"correctness": 1, "format": weight}}
    config["primary"] = {"contrasts": [{"arm": "b"}, {"arm": "c"}]}
    return config


def seeds_by_arm(study):
    seeds = {}
    for run in study.runs.values():
        seeds.setdefault(run.arm, []).append(run.seed)
    return seeds


def start(config, root):
    """Start a study: its lines, and the study after `study.json` is written."""
    lines = []
    record_question(resolve(config, "study.yaml", root), True, True, lines.append)
    return resolve(config, "study.yaml", root), lines


def take(study, **decisions):
    """Put a look with these decisions on record."""
    record = recorded_looks(read_record(study.description))
    at_look = [ContrastAtLook(arm=arm, against="a", decision=of, **NUMBERS) for arm, of in decisions.items()]
    look = Look(seeds=record.looks[len(record.taken)], date="2026-01-31T12:00:00Z", contrasts=at_look, error_left=0.04)
    content = json.loads(study.description.read_text())
    record = record.model_copy(update={"taken": [*record.taken, look]})
    write_json({**content, "sequential": record.model_dump()}, study.description)


def test_seeds_follow_from_the_record_alone(looking, tmp_path):
    study, lines = start(looking, tmp_path)
    assert (seeds_by_arm(study), lines) == ({arm: [0, 1] for arm in "abcd"}, [])
    assert Declarations(study).look_is_due
    assert "next is look 1 of 3, with 2 seeds; open: b against a, c against a" in Declarations(study).looks_line()
    take(study, b="different", c="open")
    study, lines = start(looking | {"bootstrap": 100}, tmp_path)
    assert (seeds_by_arm(study), lines) == ({"a": [0, 1, 2], "b": [0, 1], "c": [0, 1, 2], "d": [0, 1]}, [])
    line = Declarations(study).looks_line()
    assert "next is look 2 of 3, with 3 seeds; open: c against a; b against a: different with 2 seeds" in line
    record = recorded_looks(read_record(study.description))
    assert (record.runs_then, len(record.taken), record.earlier) == (0, 1, [])
    take(study, c="equivalent")
    before = seeds_by_arm(study)
    study, _ = start(looking, tmp_path)
    assert seeds_by_arm(study) == before
    assert not Declarations(study).look_is_due
    assert "finished with look 2" in Declarations(study).looks_line()


@pytest.mark.parametrize(
    "change",
    [
        {"seeds": {"looks": [2, 4, 5], "stop": "obrien_fleming"}},
        {"statistics": {"equivalence_margin": 0.1}},
        {"training": {"max_steps": 11}},  # other runs
        {"data": CONFIG["data"] | {"evaluation": {"test": SET | {"seed": 5}}}},  # another set of the same name
    ],
)
def test_a_change_after_the_first_look_begins_anew_and_is_told(looking, tmp_path, change):
    study, _ = start(looking, tmp_path)
    take(study, b="different", c="open")
    changed, lines = start(looking | change, tmp_path)
    assert "changed after 1 of the looks at 2, 3, 5 seeds (obrien_fleming)" in " ".join(lines)
    record = recorded_looks(read_record(changed.description))
    assert (record.taken, len(record.earlier)) == ([], 1)
    assert set(map(tuple, seeds_by_arm(changed).values())) == {(0, 1)}
    assert "changed after 1 of the looks" in Declarations(changed).looks_line()
    back, _ = start(looking, tmp_path)
    assert (seeds_by_arm(back)["b"], seeds_by_arm(back)["c"]) == ([0, 1], [0, 1, 2])


def renamed(config, **names):
    """The config with other names of arms."""
    arms = {names.get(name, name): arm for name, arm in config["arms"]["arms"].items()}
    contrasts = [{"arm": names.get(each["arm"], each["arm"])} for each in config["primary"]["contrasts"]]
    return config | {"arms": config["arms"] | {"arms": arms}, "primary": {"contrasts": contrasts}}


@pytest.mark.parametrize("names", [{"b": "c", "c": "b"}, {"a": "z", "b": "a", "c": "y"}])
def test_a_renamed_arm_keeps_its_looks(looking, tmp_path, names):
    study, _ = start(looking, tmp_path)
    take(study, b="different", c="open")
    study, lines = start(renamed(looking, **names), tmp_path)
    a, b, c = (names.get(name, name) for name in "abc")
    assert lines == []
    assert seeds_by_arm(study) == {a: [0, 1, 2], b: [0, 1], c: [0, 1, 2], "d": [0, 1]}
    line = Declarations(study).looks_line()
    expected = f"next is look 2 of 3, with 3 seeds; open: {c} against {a}; {b} against {a}: different with 2 seeds"
    assert expected in line
    start(looking | {"training": {"max_steps": 11}}, tmp_path)
    study, _ = start(looking, tmp_path)  # returns to the plan under its first names
    assert seeds_by_arm(study)["c"] == [0, 1, 2]


def test_a_list_of_seeds_leaves_the_record_and_says_what_it_is_not(looking, tmp_path):
    study, _ = start(looking, tmp_path)
    take(study, b="different", c="open")
    listed, _ = start(looking | {"seeds": [0, 1, 7]}, tmp_path)
    write_json(Declarations(listed).content(), listed.description)
    assert seeds_by_arm(listed) == {arm: [0, 1, 7] for arm in "abcd"}
    line = Declarations(listed).looks_line()
    assert line.startswith("sequential seeds: not the sequential answers: the study declared looks at 2")
    assert recorded_looks(read_record(listed.description)).in_force is False
    study, lines = start(looking, tmp_path)
    assert (seeds_by_arm(study)["c"], lines) == ([0, 1, 2], [])


def test_seeds_of_single_arms_do_not_go_with_looks(looking):
    looking["arms"]["seeds"] = {"d": []}
    assert set(seeds_by_arm(resolve(looking, "s", Path()))) == {"a", "b", "c"}
    looking["arms"]["seeds"] = {"b": [0]}
    assert refusal(looking).startswith("arms.seeds.b: seeds.looks decides the seeds of each arm")
    looking |= {"arms": {"design": "list", "arms": {"a": {"weights": {"correctness": 1}}}}, "primary": {}}
    assert refusal(looking).startswith("seeds.looks: there is no contrast to decide, as the study has one")
