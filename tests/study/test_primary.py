"""The primary question: its defaults, mistakes, and the time of its declaration."""

import json
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
    asked = question(config)
    config["primary"]["contrasts"].reverse()
    assert question(config).key == asked.key
    config["evaluation"] |= {"greedy": False, "samples": 4}
    assert question(config).mode == "sampled"


def test_a_study_of_one_arm_asks_nothing(config):
    del config["arms"]["arms"]["b"]
    assert str(question(config)).endswith("(greedy): no comparison of two arms")


OWN = {"passes": {"function": "constant", "range": [0, 1]}, "words": {"function": "constant"}}


@pytest.mark.parametrize("samples", [1, 6])
@pytest.mark.parametrize(
    ("answer_format", "own"),
    [("boxed", {}), ("boxed", OWN), (None, {"passes": OWN["passes"]}), (None, {"words": OWN["words"]})],
)
def test_the_metrics_are_those_that_are_computed(answer_format, own, samples):
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
    assert lines == []
    finish(3)
    assert start(trains=False) == (first, [])
    later, lines = start(bootstrap=100, seeds=[0, 1, 2], trains=False)  # whatever else changes
    assert (later, lines) == (first, [])
    assert declaration_text(first) == "declared 2026-01-31T01:00:00Z, before the first run"


def test_a_change_before_any_run_replaces_the_question(start, clock):
    start()
    second, lines = start(primary={"metric": "format"})
    assert (second.declared, second.runs_then, second.earlier, lines) == ("2026-01-31T02:00:00Z", 0, [], [])


def test_a_change_after_runs_is_told_and_the_earlier_question_kept(start, clock, config, tmp_path, finish):
    first, _ = start()
    finish(4)
    config["arms"]["arms"]["c"] = {"weights": {"format": 1}}
    config["primary"] = {"contrasts": [{"arm": "b"}, {"arm": "c"}]}
    planned = Declarations(resolve(config, "study.yaml", tmp_path)).primary_line()
    told = "b, c against a; {} after 4 runs were there; added: c against a"
    assert planned.endswith(told.format("to be changed at the next start,"))
    second, (line,) = start()
    assert (second.runs_then, second.declared) == (4, "2026-01-31T03:00:00Z")
    assert [(each.digest, each.since) for each in second.earlier] == [(first.digest, first.since)]
    assert line.startswith("primary question: accuracy_strict on test (greedy): ")
    assert line.endswith(told.format("changed 2026-01-31T03:00:00Z,"))
    third, (line,) = start(primary={"metric": "format", "contrasts": [{"arm": "c"}]}, trains=False)
    assert [each.digest for each in third.earlier] == [first.digest, second.digest]
    assert line.endswith("; metric was accuracy_strict; taken out: b against a")
    assert start()[1] == []  # told once


def test_what_the_names_stand_for_counts(start, clock, finish):
    own = {"function": "constant", "range": [0, 1]}
    first, _ = start(evaluation__metrics={"m": dict(own)}, primary={"metric": "m"})
    finish(4)
    moved, lines = start(evaluation__metrics__more={"function": "constant"}, trains=False)
    assert (moved.since, lines) == (first.since, [])
    for path, value, words in (
        ("data__evaluation__test__seed", 5, "dataset test"),
        ("evaluation__metrics__m__range", [0, 2], "metric m"),
    ):
        changed, (line,) = start(**{path: value})
        assert (changed.runs_then, line.rpartition("; ")[2]) == (4, f"{words} is another one under the same name")
    back, _ = start(data__evaluation__test__seed=0, evaluation__metrics={"m": own})
    assert back.since == first.since


def test_the_analysis_reads_the_question_and_an_older_file_is_taken_to_ask_the_default(start, config, tmp_path):
    config |= {"control": "b", "primary": {"metric": "format"}}
    declared, _ = start()
    path = tmp_path / "results" / "study" / "study.json"
    assert (read_study(path).primary, read_study(path).control) == (declared, "b")
    written = json.loads(path.read_text())
    del written["primary"], written["control"]
    path.write_text(json.dumps(written | {"shown_problems": ["p"]}))  # a key of earlier versions
    older = read_study(path)
    assert (older.primary.metric, older.primary.declared, older.control) == ("accuracy_strict", None, None)
    assert [str(contrast) for contrast in older.primary.contrasts] == ["b against a"]
