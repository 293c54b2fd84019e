"""Warnings of requests: by components in runs that are not trained on them, and by metrics about all answers."""

import pytest

from reward_ablation.study.resolve import resolve

OWN = """\
async def asks(completions, **columns):
    return [0.0 for _ in completions]


def plain(completions, **columns):
    return [0.0 for _ in completions]
"""


@pytest.fixture
def warnings_of(config, tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "judge.txt").write_text("{question} {completion}")

    def warnings_of(function, scored="everywhere", weight_b=0, **training):
        parameters = {"model": "m", "template": "judge.txt", "endpoint": "http://127.0.0.1:9/v1"}
        component = {"function": function, "parameters": parameters if function == "judge" else {}, "scored": scored}
        config["components"]["helpful"] = component
        config["arms"]["arms"]["a"]["weights"]["helpful"] = 1
        config["arms"]["arms"]["b"]["weights"]["helpful"] = weight_b
        config["training"] = {"max_steps": 10, "per_device_train_batch_size": 4} | training
        return [each for each in resolve(config, "study.yaml", tmp_path).warnings if "endpoint" in each]

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
    assert (
        "helpful: is asynchronous; if it asks an endpoint, it does so about each completion, also in 2 of 4" in warning
    )
    assert "about 40 of 80 requests" in warning


def test_without_a_number_of_steps_the_requests_of_a_step_are_told(warnings_of):
    (warning,) = warnings_of("judge", max_steps=-1)
    assert "about 8 of 16 requests a step" in warning


@pytest.mark.parametrize(
    ("function", "options"),
    [("judge", {"scored": "where_trained"}), ("judge", {"weight_b": 0.5}), ("own.py:plain", {})],
)
def test_nothing_is_told_where_nothing_is_asked_in_vain(warnings_of, function, options):
    assert warnings_of(function, **options) == []


@pytest.fixture
def metric_warnings_of(config, tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "judge.txt").write_text("{question} {completion}")
    parameters = {"model": "m", "template": "judge.txt", "endpoint": "http://127.0.0.1:9/v1"}
    config["training"] |= {"max_steps": 10}

    def metric_warnings_of(function="judge", **evaluation):
        metric = {"function": function, "parameters": parameters if function == "judge" else {}}
        config["evaluation"] |= {"metrics": {"helpful": metric, "flat": {"function": "constant"}}, **evaluation}
        warnings = resolve(config, "study.yaml", tmp_path).warnings
        return [each for each in warnings if each.startswith("evaluation.metrics")]

    return metric_warnings_of


def test_a_metric_that_asks_is_told_with_its_requests(metric_warnings_of, config):
    told = "evaluation.metrics.helpful: asks an endpoint about each answer: at most 4 to each question, of 5 models"
    assert metric_warnings_of(samples=3) == [told]
    config["keep_models"] = 4
    assert metric_warnings_of() == [f"{told}, and of the models that runs keep"]


def test_an_asynchronous_metric_is_told_and_another_is_not(metric_warnings_of):
    [told] = metric_warnings_of("own.py:asks")
    assert told.startswith("evaluation.metrics.helpful: is asynchronous; if it asks an endpoint, it does so about each")
    assert metric_warnings_of("own.py:plain") == []
