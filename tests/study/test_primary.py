"""The primary question: its defaults, mistakes, and the time of its declaration."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest

from configs import changed
from reward_ablation.analysis.evaluation.metrics import Metrics
from reward_ablation.analysis.evaluation.question_means import question_means
from reward_ablation.analysis.statistics.limits import UNLIMITED, Limits
from reward_ablation.analysis.study_file import read_study
from reward_ablation.config.sections.evaluation import Evaluation
from reward_ablation.config.sections.questions import metrics_of_mode
from reward_ablation.start.declarations import Declarations, describe_study, record_question
from reward_ablation.study.answers_record import read_record
from reward_ablation.study.primary import declaration_text, recorded_primary
from reward_ablation.study.resolve import resolve


def question(config):
    return resolve(config, "study.yaml", Path()).question


def contrasts(config):
    return [(contrast.arm, contrast.against) for contrast in question(config).contrasts]


def test_by_default_each_other_arm_is_compared_with_the_baseline(config):
    config["arms"]["arms"]["c"] = {"weights": {"format": 1}}
    asked = question(config)
    assert (asked.dataset, asked.mode, asked.metric) == ("test", "greedy", "accuracy_strict")
    assert contrasts(config) == [("b", "a"), ("c", "a")]
    config["baseline"] = "b"
    assert contrasts(config) == [("a", "b"), ("c", "b")]
    config["primary"] = {"contrasts": [{"arm": "c"}, {"arm": "a", "against": "c"}]}
    assert contrasts(config) == [("c", "b"), ("a", "c")]
    config["evaluation"] |= {"greedy": False, "samples": 4}
    assert question(config).mode == "sampled"


def test_a_study_of_one_arm_asks_nothing(config):
    del config["arms"]["arms"]["b"]
    assert contrasts(config) == []
    assert str(question(config)).endswith("(greedy): no comparison of two arms")


OWN = {"passes": {"function": "constant", "range": [0, 1]}, "words": {"function": "constant"}}


@pytest.mark.parametrize("answer_format", ["boxed", None])
@pytest.mark.parametrize("own", [{}, {"passes": OWN["passes"]}, {"words": OWN["words"]}, OWN])
def test_the_metrics_are_those_that_are_computed(answer_format, own):
    if not own and answer_format is None:
        return
    for samples in (1, 2, 4, 6):
        evaluation = Evaluation(answer_format=answer_format, metrics=own, samples=samples)
        limits = {name: Limits(0, 1) if "range" in metric else UNLIMITED for name, metric in own.items()}
        metrics = Metrics(answer_format is not None, limits)
        answers = pd.DataFrame({name: [0.0] * samples for name in metrics.columns})
        sampled = answers.assign(mode="sampled", problem_id="a", answer="1")
        greedy = sampled.head(1).assign(mode="greedy")
        means = question_means(pd.concat([sampled, greedy]), metrics)
        for mode in ("greedy", "sampled"):
            assert means[mode].metrics == metrics_of_mode(evaluation, mode)


def test_the_default_metric_is_an_own_one_where_there_is_no_mathematics(config):
    config["evaluation"] |= {"answer_format": None, "metrics": {"words": {"function": "constant"}}}
    assert question(config).metric == "words"
    config["evaluation"]["answer_format"] = "boxed"
    assert question(config).metric == "accuracy_strict"


@pytest.fixture
def start(config, tmp_path):
    """Start the study with changes of its config. Returns the declaration in `study.json` and the start's lines."""

    def start(trains: bool = True, **changes):
        for path, value in changes.items():
            changed(config, path.replace("__", "/"), value)
        study, lines = resolve(config, "study.yaml", tmp_path), []
        record_question(study, trains, True, lines.append)
        if not trains:
            describe_study(resolve(config, "study.yaml", tmp_path), study.description)  # as its job does
        return recorded_primary(read_record(study.description)), lines

    return start


def test_the_question_is_on_record_before_the_first_run_and_keeps_its_time(start, clock, tmp_path, finish):
    first, lines = start()
    assert (first.declared, first.runs_then, first.earlier) == ("2026-01-31T01:00:00Z", 0, [])
    assert re.fullmatch(r"[0-9a-f]{8}", first.digest)
    assert lines == []
    finish(3)
    text = (tmp_path / "results" / "study" / "study.json").read_bytes()
    assert start(trains=False) == (first, [])
    assert (tmp_path / "results" / "study" / "study.json").read_bytes() == text
    later, lines = start(bootstrap=100, seeds=[0, 1, 2], trains=False)  # whatever else changes
    assert (later, lines) == (first, [])
    assert declaration_text(first) == "declared 2026-01-31T01:00:00Z, before the first run"


def test_a_change_before_any_run_replaces_the_question(start, clock):
    start()
    changed_to, lines = start(arms__arms__c={"weights": {"format": 1}})
    assert (changed_to.declared, changed_to.runs_then, changed_to.earlier) == ("2026-01-31T02:00:00Z", 0, [])
    assert lines == []


def test_a_change_after_runs_is_told_and_the_earlier_question_kept(start, clock, config, tmp_path, finish):
    first, _ = start()
    finish(4)
    config["arms"]["arms"]["c"] = {"weights": {"format": 1}}
    config["primary"] = {"contrasts": [{"arm": "b"}, {"arm": "c"}]}
    planned = Declarations(resolve(config, "study.yaml", tmp_path)).primary_line()
    assert planned.endswith(
        "b, c against a; to be changed at the next start, after 4 runs were there; added: c against a"
    )
    second, lines = start()
    assert (second.runs_then, second.declared) == (4, "2026-01-31T03:00:00Z")
    assert [(each.declared, each.digest, each.runs_then) for each in second.earlier] == [
        (first.declared, first.digest, 0)
    ]
    assert lines == [
        "primary question: accuracy_strict on test (greedy): b, c against a; changed 2026-01-31T03:00:00Z, "
        "after 4 runs were there; added: c against a"
    ]
    third, lines = start(primary={"metric": "format", "contrasts": [{"arm": "c"}]}, trains=False)
    assert [each.digest for each in third.earlier] == [first.digest, second.digest]
    assert lines[0].endswith("; metric was accuracy_strict; taken out: b against a")
    assert start()[1] == []  # told once
    assert (
        Declarations(resolve(config, "study.yaml", tmp_path))
        .primary_line()
        .endswith(lines[0].partition("; changed")[2])
    )


def test_what_the_names_stand_for_counts_and_a_record_without_it_keeps_its_time(start, clock, tmp_path, finish):
    own = {"function": "constant", "range": [0, 1]}
    first, _ = start(evaluation__metrics={"m": dict(own)}, primary={"metric": "m"})
    path = tmp_path / "results" / "study" / "study.json"
    written = json.loads(path.read_text())
    del written["primary"]["measured"]
    former = first.by_names("measured").key
    path.write_text(json.dumps(written | {"primary": written["primary"] | {"digest": former}}))
    finish(4, primary={former: first.since})
    moved, lines = start(evaluation__metrics__more={"function": "constant"}, trains=False)
    assert (moved.since, moved.digest, moved.measured, lines) == (first.since, former, first.measured, [])
    for path, value, words in (
        ("data__evaluation__test__seed", 5, "dataset test"),
        ("evaluation__metrics__m__range", [0, 2], "metric m"),
        ("evaluation__metrics__m__function", "random", "metric m"),
    ):
        changed, (line,) = start(**{path: value})
        assert (changed.runs_then, line.rpartition("; ")[2]) == (4, f"{words} is another one under the same name")
    back, _ = start(data__evaluation__test__seed=0, evaluation__metrics={"m": own})
    assert back.since == first.since


def test_the_order_of_contrasts_is_no_change(start, clock):
    both = [{"arm": "a", "against": "b"}, {"arm": "c", "against": "b"}]
    first, _ = start(arms__arms__c={"weights": {"format": 1}}, primary={"contrasts": both})
    second, _ = start(primary={"contrasts": both[::-1]})
    assert (second.digest, second.declared) == (first.digest, first.declared)


def test_the_analysis_reads_the_question_and_an_older_file_is_taken_to_ask_the_default(start, config, tmp_path):
    config |= {"control": "b", "primary": {"metric": "format"}}
    declared, _ = start()
    path = tmp_path / "results" / "study" / "study.json"
    study = read_study(path)
    assert study.primary == declared
    assert study.control == "b"
    written = json.loads(path.read_text())
    del written["primary"], written["control"]
    written["shown_problems"] = ["p"]  # a key of earlier versions
    path.write_text(json.dumps(written))
    older = read_study(path)
    assert (older.primary.metric, older.primary.declared, older.control) == ("accuracy_strict", None, None)
    assert [str(contrast) for contrast in older.primary.contrasts] == ["b against a"]
