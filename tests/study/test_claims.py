"""The claims of a config: defaults, mistakes, and the time of each declaration."""

import json
import re
from pathlib import Path

import pytest

from reward_ablation.analysis.study_file import read_study
from reward_ablation.start.declarations import Declarations, describe_study, record_question
from reward_ablation.study.answers_record import read_record
from reward_ablation.study.claims import recorded_claims
from reward_ablation.study.resolve import resolve
from reward_ablation.system.errors import StudyError

BETTER = {"says": "b is better", "metric": "format", "arm": "b", "direction": "higher"}
SAME = {"says": "as long", "metric": "tokens", "arm": "b", "direction": "same", "margin": 5}


def claims(config, **made):
    return resolve(config | {"claims": made}, "study.yaml", Path()).claims


def test_a_claim_takes_baseline_data_set_and_mode_of_the_study(config):
    (found,) = claims(config, better=BETTER)
    assert (found.arm, found.against, found.dataset, found.mode, found.margin) == ("b", "a", "test", "greedy", 0.0)
    config["evaluation"]["samples"] = 4
    config |= {"primary": {"mode": "sampled"}, "baseline": "b"}
    (found,) = claims(config, better=BETTER | {"arm": "a", "metric": "pass@4"})
    assert (found.against, found.mode, found.metric) == ("b", "sampled", "pass@4")
    (found,) = claims(config, better=BETTER | {"against": "base", "mode": "greedy"})
    assert (found.against, found.mode) == ("base", "greedy")


def test_a_claim_is_made_once_and_its_words_are_written(config):
    other_words = BETTER | {"says": "in other words"}
    with pytest.raises(StudyError, match=r"claims\.d: judges the same as claims\.c; take one of them out"):
        claims(config, c=BETTER, d=other_words | {"against": "a"})
    assert len(claims(config, c=BETTER, d=BETTER | {"margin": 0.1})) == 2
    studies = [resolve(config | {"claims": {"c": claim}}, "s", Path()) for claim in (BETTER, other_words)]
    assert studies[0].digest != studies[1].digest


@pytest.fixture
def start(config, tmp_path):
    """Start the study with these claims. Returns the record in `study.json` and the start's lines on claims."""

    def start(**made):
        config["claims"] = made
        study, lines = resolve(config, "study.yaml", tmp_path), []
        planned = Declarations(study).claims_line()
        record_question(study, True, True, lines.append)
        describe_study(resolve(config, "study.yaml", tmp_path), study.description)  # as its job does
        record = recorded_claims(read_record(study.description))
        return record, planned, [line for line in lines if line.startswith("claims")]

    return start


def test_a_study_without_claims_has_the_study_json_of_one_that_knows_no_claims(start, tmp_path):
    start(better=BETTER)
    _, planned, _ = start()  # a claim that is taken out before any run is gone
    assert planned == ""
    written = json.loads((tmp_path / "results" / "study" / "study.json").read_text())
    assert not [key for key in written if "claim" in key]
    assert recorded_claims(written | {"claims": [{"direction": "sideways"}]}).claims == []  # which cannot be read


def test_claims_are_on_record_before_the_first_run_and_keep_their_time(start, clock, tmp_path, finish):
    first, planned, told = start(better=BETTER, long=SAME)
    assert planned == "claims: better, long; to be declared at the next start, before the first run"
    assert told == []
    finish(3)
    again, planned, told = start(better=BETTER, long=SAME)
    assert (again, told) == (first, [])
    assert re.fullmatch(r"claims: better, long; declared 2026-01-31T\d\d:00:00Z, before the first run", planned)
    reworded, _, told = start(renamed=BETTER | {"says": "in other words", "source": "a paper"}, long=SAME)
    assert [claim.since for claim in reworded.claims] == [claim.since for claim in first.claims]
    assert (reworded.claims[0].name, reworded.claims[0].says, told) == ("renamed", "in other words", [])
    assert read_study(tmp_path / "results" / "study" / "study.json").claims == reworded.claims


def test_a_claim_that_is_added_changed_or_taken_out_after_runs_stays_on_record(start, clock, finish):
    first, _, _ = start(better=BETTER)
    finish(4)
    record, planned, (line,) = start(better=BETTER, late=SAME)
    assert [claim.runs_then for claim in record.claims] == [0, 4]
    assert planned.endswith("; late; to be declared at the next start, after 4 runs were there")
    assert line.endswith(f"; late; declared {record.claims[1].declared}, after 4 runs were there")
    assert start(better=BETTER, late=SAME)[2] == []  # told once
    changed, _, (line,) = start(better=BETTER | {"direction": "lower"})
    assert [(claim.direction, claim.runs_then) for claim in changed.claims] == [("lower", 4)]
    assert changed.withdrawn_claims == record.claims
    assert line.endswith("after 4 runs were there; better, late; taken out after there were runs")
    back, _, _ = start(better=BETTER)  # whoever puts a claim back has made it when it was first declared
    assert back.claims == first.claims
    assert [claim.name for claim in back.withdrawn_claims] == ["late", "better"]


def test_an_arm_of_a_claim_counts_by_its_spec_and_not_by_its_name(start, clock, finish, config):
    first, _, _ = start(better=BETTER)
    finish(1)
    arms = config["arms"]["arms"]
    arms["new"] = arms.pop("b")
    record, planned, told = start(better=BETTER | {"arm": "new"})
    assert [(claim.arm, claim.since) for claim in record.claims] == [("new", first.claims[0].since)]
    assert (record.withdrawn_claims, told) == ([], [])
    assert planned == f"claims: better; declared {first.claims[0].declared}, before the first run"


def test_a_claim_on_another_set_or_metric_under_the_same_name_is_another(start, clock, finish, config):
    config["evaluation"]["metrics"] = {"m": {"function": "constant"}}
    first, _, _ = start(better=BETTER | {"metric": "m"})
    finish(1)
    config["evaluation"]["metrics"]["m"]["function"] = "random"
    record, _, _ = start(better=BETTER | {"metric": "m"})
    assert ([claim.runs_then for claim in record.claims], record.withdrawn_claims) == ([1], first.claims)
    config["data"]["evaluation"]["test"]["seed"] = 5
    assert len(start(better=BETTER | {"metric": "m"})[0].withdrawn_claims) == 2
