"""Warnings of requests: by components in runs that are not trained on them, and by metrics about all answers."""

import pytest

from reward_ablation.study.resolve import resolve

OWN = "async def asks(completions, **columns): ...\ndef plain(completions, **columns): ...\n"


@pytest.fixture
def warnings(config, tmp_path):
    """The config's warnings about endpoints."""
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "judge.txt").write_text("{question} {completion}")
    return lambda: [each for each in resolve(config, "study.yaml", tmp_path).warnings if "endpoint" in each]


def asking(function):
    """What a component or a metric of a function has."""
    judge = {"model": "m", "template": "judge.txt", "endpoint": "http://127.0.0.1:9/v1"}
    return {"function": function, "parameters": judge if function == "judge" else {}}


@pytest.fixture
def warnings_of(config, warnings):
    def warnings_of(function, scored="everywhere", weight_b=0, **training):
        config["components"]["helpful"] = {**asking(function), "scored": scored}
        config["arms"]["arms"]["a"]["weights"]["helpful"] = 1
        config["arms"]["arms"]["b"]["weights"]["helpful"] = weight_b
        config["training"] = {"max_steps": 10, "per_device_train_batch_size": 4} | training
        return warnings()

    return warnings_of


def test_a_judge_that_is_scored_everywhere_is_told_with_its_requests(warnings_of):
    # Two arms with two seeds each, ten steps of 4 * 2 completions.
    (warning,) = warnings_of("judge", gradient_accumulation_steps=2)
    assert warning == (
        "components.helpful: asks an endpoint about each completion, also in 2 of 4 runs whose weight on it is 0: "
        "about 160 of 320 requests; components.helpful.scored: where_trained leaves them out"
    )


def test_an_asynchronous_function_is_told_likewise(warnings_of):
    (warning,) = warnings_of("own.py:asks", num_iterations=2)
    told = "helpful: is asynchronous; if it asks an endpoint, it does so about each completion, also in 2 of 4"
    assert told in warning
    assert "about 40 of 80 requests" in warning
    (warning,) = warnings_of("own.py:asks", max_steps=-1)
    assert "about 8 of 16 requests a step" in warning


@pytest.mark.parametrize(
    ("function", "options"),
    [("judge", {"scored": "where_trained"}), ("judge", {"weight_b": 0.5}), ("own.py:plain", {})],
)
def test_nothing_is_told_where_nothing_is_asked_in_vain(warnings_of, function, options):
    assert warnings_of(function, **options) == []


def test_a_metric_that_asks_is_told_with_its_requests(warnings, config):
    config["evaluation"] |= {"metrics": {"helpful": asking("judge"), "flat": {"function": "constant"}}, "samples": 3}
    told = "evaluation.metrics.helpful: asks an endpoint about each answer: at most 4 to each question, of 5 models"
    assert warnings() == [told]
    config["keep_models"] = 4
    assert warnings() == [f"{told}, and of the models that runs keep"]
    config["evaluation"]["metrics"]["helpful"] = asking("own.py:plain")
    assert warnings() == []
