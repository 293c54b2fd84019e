"""Numbers by hand: two questions; the first has two samples, one of them right."""

import json
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from analysis.made_up import MadeUpStudy
from reward_ablation.analysis.evaluation import stored_answers
from reward_ablation.analysis.evaluation.answers import (
    Answered,
    answered,
    difference_rows,
    distribution_of_difference,
    evaluation_rows,
)
from reward_ablation.analysis.evaluation.metrics import MATHEMATICS, Metrics, metrics_of_study
from reward_ablation.analysis.evaluation.question_means import QuestionMeans, question_means, runs_means
from reward_ablation.analysis.evaluation.stored_answers import LABELS, means_reader
from reward_ablation.analysis.statistics.estimates import intervals, resampled_seeds
from reward_ablation.analysis.statistics.limits import SHARE, Limits
from reward_ablation.analysis.statistics.seed_variance import SeedMeans
from reward_ablation.analysis.study_file import StudyFile, read_study
from reward_ablation.config.sections.evaluation import OF_MATHEMATICS
from reward_ablation.study.primary import Contrast
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import write_parquet


def answers(rows: list[tuple[str, str, bool, int]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["mode", "problem_id", "correct_strict", "tokens"])
    same = frame["correct_strict"]
    return frame.assign(correct_lenient=True, correct_math_paper=same, format=same, truncated=False, answer="1")


def evaluation_of_arm(means: list[QuestionMeans], arm: str, dataset: str, resamples: int, confidence: float):
    """Estimates of one arm, from the question means of its seeds."""
    return evaluation_rows(answered(dict(enumerate(means)), dataset, resamples), arm, dataset, confidence, {})


def by_metric(means: QuestionMeans) -> pd.DataFrame:
    """Values of a run, a row a mode, a column a metric."""
    return of_run(means, "base", None).pivot(index="mode", columns="metric", values="value")


NOTHING_DECLARED = SimpleNamespace(contrasts=[], dataset="gsm8k", mode="greedy", metric="accuracy_strict")

ONE_SEED = answers(
    [
        ("greedy", "b", True, 30),
        ("greedy", "a", False, 10),
        ("sampled", "a", True, 10),
        ("sampled", "a", False, 20),
        ("sampled", "b", True, 40),
        ("sampled", "b", True, 40),
    ]
)


def test_a_score_outside_of_its_metric_s_range_is_refused(tmp_path):
    own = MadeUpStudy(arms={"one": {"a": 1.0}}, layers=0, steps=1, seeds=(0,))
    path = own.write(tmp_path)
    scores = {"metrics": [{"name": "m", "range": [0, 1]}], "scores": {"gsm8k_test": "scores/{run}/gsm8k_test.parquet"}}
    path.write_text(json.dumps(json.loads(path.read_text()) | scores))
    study = read_study(path)
    for value, is_refused in ((1 + 1e-7, False), (-1.0, True), (np.inf, True)):
        for file in (tmp_path / "evaluation").rglob("gsm8k_test.parquet"):
            labels = pd.read_parquet(file)[LABELS]
            write_parquet(labels.assign(m=value), tmp_path / "scores" / file.relative_to(tmp_path / "evaluation"))
        stored_answers._without_score.cache_clear()
        with pytest.raises(StudyError) if is_refused else nullcontext() as error:
            means_reader(study, tmp_path)("gsm8k_test", "one")
        if error:
            assert str(error.value).endswith(
                f"base/gsm8k_test.parquet: metric m gave {value:g}, outside of its range [0, 1]; correct "
                "evaluation.metrics.m.range, which scores no answer again, or the metric"
            )


def of_run(means, arm, seed):
    return runs_means([(arm, seed, None, means)], "gsm8k")


def test_texts_that_are_read_as_categories_give_the_same_means():
    coded = ONE_SEED.astype(dict.fromkeys(("mode", "problem_id", "answer"), "category"))
    coded["mode"] = coded["mode"].cat.reorder_categories(["sampled", "greedy"])
    coded["problem_id"] = coded["problem_id"].cat.set_categories(["b", "unused", "a"])
    assert question_means(ONE_SEED)["sampled"].problems.tolist() == ["a", "b"]
    for mode, means in question_means(ONE_SEED).items():
        of_coded = question_means(coded)[mode]
        assert of_coded.metrics == means.metrics
        assert of_coded.problems.tolist() == means.problems.tolist()
        np.testing.assert_array_equal(of_coded.values, means.values)


def test_every_question_counts_the_same_whatever_its_number_of_samples():
    uneven = answers([("sampled", "a", True, 1)] + [("sampled", "b", False, 1)] * 3)
    rows = of_run(question_means(uneven), "arm", 0).set_index("metric")
    assert rows.loc["accuracy_strict", "value"] == 0.5  # a mean over the answers would be .25
    assert (rows["questions"] == 2).all()
    assert (rows["answers"] == 4).all()


def test_only_sampled_answers_have_metrics_of_several_samples():
    values = of_run(question_means(ONE_SEED), "base", None).set_index(["mode", "metric"])["value"]
    assert values["sampled", "pass@1"] == values["sampled", "accuracy_strict"] == 0.75  # half of a, all of b
    assert values["sampled", "tokens"] == (15 + 40) / 2
    assert values["sampled", "pass@2"] == 1  # one of two right in a, both in b
    assert values["sampled", "maj@2"] == 0.75  # a tie in a
    assert "pass@1" not in values["greedy"].index
    assert "maj@1" not in values["greedy"].index


@pytest.mark.parametrize(("higher_is_better", "passes"), [(True, [0, 0.5]), (False, [0.5, 0])])
def test_an_answer_passes_with_the_best_score_of_an_own_metric(higher_is_better, passes):
    plan = MadeUpStudy(layers=0).plan() | {"mathematics": False}
    metric = {"name": "errors", "range": [-10, 1000], "higher_is_better": higher_is_better}
    study = StudyFile.model_validate(plan | {"metrics": [metric, {"name": "other", "range": [0, 1]}]})
    scores = {"problem_id": ["a", "a", "b", "b"], "errors": [-10, 3, 1000, 3], "other": 1.0, "tokens": 1}
    rows = pd.DataFrame({"mode": "sampled", "truncated": False, **scores})
    assert question_means(rows, metrics_of_study(study))["sampled"].of("pass@1").tolist() == passes


@pytest.mark.parametrize(
    ("ends", "higher_is_better", "score", "passes"),
    [
        ((0, 1), True, 0.7 + 0.2 + 0.1, True),  # 0.9999999999999999
        ((0, 0.7), True, float(np.float32(0.7)), True),
        ((0.7, 1), False, 1 - 0.1 - 0.1 - 0.1, True),
        ((0, 1), True, 0.9999, False),
        ((0, 1e-7), True, 0.9e-7, False),
        ((0, 1e6), False, 1, False),
        ((0, 1e6), True, 999_999, False),
    ],
)
def test_a_rounded_score_passes_as_the_best_one(ends, higher_is_better, score, passes):
    column, passed = Metrics(False, {"own": Limits(*ends)}, low_is_better=not higher_is_better).passed
    assert (column, passed(np.array([score, np.nan])).tolist()) == ("own", [passes, False])


def test_where_the_graders_differ():
    """Greedy: b is right for the first grader alone. Sampled: one of two answers to a is right for the second alone."""
    rows = ONE_SEED.assign(correct_math_paper=[False, False, True, True, True, True])
    means = by_metric(question_means(rows))
    names = ["graders_differ", "correct_only_strict", "correct_only_math_paper", "accuracy_math_paper"]
    assert means.loc["greedy", names].tolist() == [0.5, 0.5, 0, 0]
    assert means.loc["sampled", names].tolist() == [0.25, 0, 0.25, 1]
    assert question_means(rows)["sampled"].of("graders_differ")[0] == 0.5


def test_difference_is_paired_by_seed_and_question():
    better = question_means(ONE_SEED.assign(correct_strict=True))
    baseline = question_means(ONE_SEED)
    # Seeds come in another order than the baseline's.
    arms = {"arm": {1: better, 0: better}, "baseline": {0: baseline, 1: baseline}}
    both = {arm: answered(of_arm, "gsm8k", 200) for arm, of_arm in arms.items()}
    study = StudyFile.model_construct(confidence=0.95, equivalence_margin=0.9, primary=NOTHING_DECLARED)
    table = difference_rows("arm", "baseline", both, "gsm8k", study, {})
    table = table.set_index(["mode", "metric"])
    row = table.loc[("sampled", "accuracy_strict")]
    assert row["estimate"] == 0.25  # question a: 1 - .5; question b: 1 - 1
    assert row["seeds"] == 2
    lenient = table.loc[("sampled", "accuracy_lenient")]
    # No difference on two questions: 1 - .025 ** (1 / 2) of all questions may differ, and all to one side.
    assert (lenient["low"], lenient["high"]) == pytest.approx((-0.8419, 0.8419), abs=1e-4)
    assert lenient["p"] == 1
    assert lenient["p_equivalent"] == pytest.approx(0.02, abs=0.005)  # the interval is just inside of .9 to both sides
    assert np.isnan(table.loc[("sampled", "tokens"), "p_equivalent"])  # the margin is one of shares
    tokens = table.loc[("greedy", "tokens")]  # no difference, either: that may be as large as the mean length elsewhere
    length = question_means(ONE_SEED)["greedy"].of("tokens").mean()
    assert (tokens["estimate"], tokens["high"]) == (0, pytest.approx(0.8419 * length, rel=1e-3))


@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_more_confidence_is_a_wider_interval(confidence):
    questions = answers([("greedy", f"q{n}", n % 3 == 0, n) for n in range(600)])
    table = evaluation_of_arm([question_means(questions)], "base", "gsm8k", 2000, confidence)
    row = table.set_index("metric").loc["accuracy_strict"]
    # Normal approximation: 1.96 or .674 standard errors of sqrt(p (1 - p) / 600) to each side.
    expected = {0.5: 0.674, 0.95: 1.96}[confidence] * (1 / 3 * 2 / 3 / 600) ** 0.5
    assert (row["high"] - row["low"]) / 2 == pytest.approx(expected, rel=0.15)


B = "better"
#: The base is right in three quarters of the sampled answers, and `better` in all.
SEEDS_OF_ARMS = [
    ({0: B, 1: ""}, {5: "", 6: "", 9: B, 8: B, 7: B}, (1 + 0.75) / 2 - (3 * 1 + 2 * 0.75) / 5, 2),  # by all seeds
    ({1: B}, {0: "", 1: ""}, 0.25, 1),  # an arm with one seed is compared with the same seed
]


@pytest.mark.parametrize(("own", "other", "estimate", "seeds"), SEEDS_OF_ARMS)
def test_arms_with_different_seeds_are_compared(own, other, estimate, seeds):
    made = {B: question_means(ONE_SEED.assign(correct_strict=True)), "": question_means(ONE_SEED)}
    arms = {"arm": own, "baseline": other}
    both = {arm: answered({seed: made[of] for seed, of in by.items()}, "gsm8k", 200) for arm, by in arms.items()}
    study = StudyFile.model_construct(confidence=0.95, equivalence_margin=None, primary=NOTHING_DECLARED)
    row = difference_rows("arm", "baseline", both, "gsm8k", study, {}).set_index(["mode", "metric"])
    row = row.loc[("sampled", "accuracy_strict")]
    assert (row["estimate"], row["seeds"]) == (pytest.approx(estimate), seeds)


def test_a_seed_that_is_missing_or_added_makes_no_interval_longer():
    """Two arms that each seed moves alike: the seeds that both have are paired, whatever else there is."""
    rng = np.random.default_rng(0)
    easy = rng.uniform(0.2, 0.8, 40)

    def arm(seeds, gain):
        of_seeds = {seed: easy + 0.15 * (seed % 3 - 1) + gain + rng.normal(0, 0.02, 40) for seed in seeds}
        values = np.array([list(of_seeds.values())])
        return Answered(["score"], list(of_seeds), values, resampled_seeds(values, "data", 200), [SHARE])

    def length(own, other):
        mean, _ = distribution_of_difference(own, other, "arm", "baseline", "data", None)
        low, high = intervals(mean, 0.95)
        assert low[0] <= 0.1 <= high[0]
        return high[0] - low[0]

    own, other = arm(range(3), 0.1), arm(range(3), 0.0)
    without = Answered(own.metrics, own.seeds[:2], own.values[:, :2], own.by_seed[:, :, :2], own.limits)
    two = Answered(other.metrics, other.seeds[:2], other.values[:, :2], other.by_seed[:, :, :2], other.limits)
    assert length(without, other) <= length(without, two) + 1e-12
    assert length(own, two) <= length(without, two) + 1e-12
    later = arm(range(1, 4), 0.0)
    assert distribution_of_difference(own, later, "arm", "baseline", "data", None)[0].seeds == [2]  # 1 and 2, paired


def test_arms_added_after_a_declaration_move_no_declared_difference():
    rng = np.random.default_rng(0)
    values = {arm: rng.uniform(0.2, 0.8, (1, 2, 40)) for arm in ("arm", "baseline", "control")}
    nearly_equal = np.array([[[0.001], [-0.001]]])  # its seeds
    values["later"] = values["arm"].mean(axis=1, keepdims=True) + nearly_equal
    arms = {
        name: {"greedy": Answered(["score"], [0, 1], of, resampled_seeds(of, "data", 200), [SHARE])}
        for name, of in values.items()
    }

    def row(known, added, metric):
        means = SeedMeans(known, [0, 1], np.array([[values[arm][0].mean(axis=1) for arm in known]]), [SHARE], 40)
        primary = SimpleNamespace(contrasts=[Contrast(arm="arm", against="baseline")], dataset="data", mode="greedy")
        primary.metric = metric
        study = StudyFile.model_construct(confidence=0.95, equivalence_margin=None, primary=primary, added_arms=added)
        return difference_rows("arm", "baseline", arms, "data", study, {"greedy": means}).iloc[0]

    before, after = ["arm", "baseline", "control"], ["arm", "baseline", "control", "later"]
    as_declared = row(before, [], "score")
    pd.testing.assert_series_equal(row(after, ["later"], "score"), as_declared)
    assert row(after, [], "score")["p"] != pytest.approx(as_declared["p"], rel=0.05)  # it was there from the start
    assert row(after, ["later"], "other")["p"] == row(after, [], "score")["p"]  # exploratory


def test_the_config_knows_the_metrics_of_mathematics():
    assert {*OF_MATHEMATICS} == {*MATHEMATICS}, (
        "config/sections/evaluation.py and analysis/evaluation/metrics.py differ"
    )
