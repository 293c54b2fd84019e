"""The order in which jobs go out: all arms at the first seed before the second seed of any arm."""

from pathlib import Path
from types import SimpleNamespace

from reward_ablation.study.order import Order
from reward_ablation.study.resolve import resolve


def test_first_comparisons_come_first(config):
    config |= {"seeds": [3, 0], "baseline": "b"}
    config["arms"]["arms"]["same_as_a"] = config["arms"]["arms"]["a"]  # shares the runs of a
    study = resolve(config, "study.yaml", Path())
    order = Order(study)
    wildcards = [{"run": run} for run in study.runs]
    training = sorted(wildcards, key=lambda each: -order.training(SimpleNamespace(**each)))
    assert [(each["run"].partition("-")[0], each["run"][-1]) for each in training] == [
        ("b", "3"),
        ("a", "3"),
        ("b", "0"),
        ("a", "0"),
    ]
    evaluations = [{"dataset": "test"}, *training]  # the base model's first
    scorings = [{"model": "base"}, *({"model": each["run"]} for each in training)]
    for jobs in (evaluations, scorings):
        priorities = [order.evaluation(each) for each in jobs]
        assert priorities == sorted(priorities, reverse=True)
        assert len(set(priorities)) == len(jobs)
        assert min(priorities) > max(order.training(SimpleNamespace(**each)) for each in training)
        assert order.first > max(priorities)
    assert order.training(SimpleNamespace(run="gone-00000000/seed0")) == 0  # no run of the study
