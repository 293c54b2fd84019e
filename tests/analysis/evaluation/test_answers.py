"""Numbers by hand: two questions; the first has two samples, one of them right."""

import json
from contextlib import nullcontext
from itertools import combinations
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
)
from reward_ablation.analysis.evaluation.metrics import MATHEMATICS, Metrics, metrics_of_study
from reward_ablation.analysis.evaluation.question_means import (
    QuestionMeans,
    majority_right,
    pass_at,
    question_means,
    runs_means,
)
from reward_ablation.analysis.evaluation.stored_answers import LABELS, means_reader
from reward_ablation.analysis.statistics.estimates import resampled_seeds
from reward_ablation.analysis.statistics.limits import SHARE, Limits
from reward_ablation.analysis.statistics.seed_variance import SeedMeans
from reward_ablation.analysis.study_file import StudyFile, read_study
from reward_ablation.config.sections.evaluation import OF_MATHEMATICS
from reward_ablation.config.sections.questions import sizes
from reward_ablation.study.primary import Contrast
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import write_parquet


def answers(rows: list[tuple[str, str, bool, int]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["mode", "problem_id", "correct_strict", "tokens"])
    same = frame["correct_strict"]
    return frame.assign(correct_lenient=True, correct_math_paper=same, format=same, truncated=False, answer="1")


def of_run(means: QuestionMeans) -> pd.Series:
    """Values of a run by mode and metric."""
    return runs_means([("arm", 0, None, means)], "gsm8k").set_index(["mode", "metric"])["value"]


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
    for value, is_refused in ((1 + 1e-7, False), (-1.0, True)):
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


def test_texts_that_are_read_as_categories_give_the_same_means():
    coded = ONE_SEED.astype(dict.fromkeys(("mode", "problem_id", "answer"), "category"))
    coded["mode"] = coded["mode"].cat.reorder_categories(["sampled", "greedy"])
    coded["problem_id"] = coded["problem_id"].cat.set_categories(["b", "unused", "a"])
    for mode, means in question_means(ONE_SEED).items():
        of_coded = question_means(coded)[mode]
        assert of_coded.problems.tolist() == means.problems.tolist() == ["a", "b"]
        np.testing.assert_array_equal(of_coded.values, means.values)


def test_every_question_counts_the_same_whatever_its_number_of_samples():
    uneven = answers([("sampled", "a", True, 1)] + [("sampled", "b", False, 1)] * 3)
    assert of_run(question_means(uneven))["sampled", "accuracy_strict"] == 0.5  # a mean over the answers would be .25


def test_only_sampled_answers_have_metrics_of_several_samples():
    values = of_run(question_means(ONE_SEED))
    assert values["sampled", "pass@1"] == values["sampled", "accuracy_strict"] == 0.75  # half of a, all of b
    assert values["sampled", "tokens"] == (15 + 40) / 2
    assert values["sampled", "pass@2"] == 1  # one of two right in a, both in b
    assert values["sampled", "maj@2"] == 0.75  # a tie in a
    assert not {"pass@1", "maj@1"} & {*values["greedy"].index}


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
        ((0, 0.7), True, float(np.float32(0.7)), True),
        ((0.7, 1), False, 1 - 0.1 - 0.1 - 0.1, True),
        ((0, 1e-7), True, 0.9e-7, False),
        ((0, 1e6), False, 1, False),
    ],
)
def test_a_rounded_score_passes_as_the_best_one(ends, higher_is_better, score, passes):
    column, passed = Metrics(False, {"own": Limits(*ends)}, low_is_better=not higher_is_better).passed
    assert (column, passed(np.array([score, np.nan])).tolist()) == ("own", [passes, False])


def test_where_the_graders_differ():
    """Greedy: b is right for the first grader alone. Sampled: one of two answers to a is right for the second alone."""
    rows = ONE_SEED.assign(correct_math_paper=[False, False, True, True, True, True])
    values = of_run(question_means(rows))
    names = ["graders_differ", "correct_only_strict", "correct_only_math_paper", "accuracy_math_paper"]
    assert values["greedy"][names].tolist() == [0.5, 0.5, 0, 0]
    assert values["sampled"][names].tolist() == [0.25, 0, 0.25, 1]


SAMPLED, BETTER = question_means(ONE_SEED), question_means(ONE_SEED.assign(correct_strict=True))


def differences(own: dict[int, QuestionMeans], other: dict[int, QuestionMeans], confidence=0.95) -> pd.DataFrame:
    """Rows of one arm, seeds of its means, against another, where nothing is declared."""
    both = {"arm": answered(own, "gsm8k", 200), "baseline": answered(other, "gsm8k", 200)}
    primary = SimpleNamespace(contrasts=[], dataset="gsm8k", mode="greedy", metric="accuracy_strict")
    study = StudyFile.model_construct(confidence=confidence, equivalence_margin=0.9, primary=primary)
    return difference_rows("arm", "baseline", both, "gsm8k", study, {}).set_index(["mode", "metric"])


def test_difference_is_paired_by_seed_and_question():
    table = differences({1: BETTER, 0: BETTER}, {0: SAMPLED, 1: SAMPLED})
    row = table.loc[("sampled", "accuracy_strict")]
    assert (row["estimate"], row["seeds"]) == (0.25, 2)  # question a: 1 - .5; question b: 1 - 1
    lenient = table.loc[("sampled", "accuracy_lenient")]
    # No difference on two questions: 1 - .025 ** (1 / 2) of all questions may differ, and all to one side.
    assert (lenient["low"], lenient["high"]) == pytest.approx((-0.8419, 0.8419), abs=1e-4)
    assert differences({0: BETTER}, {0: SAMPLED}, 0.5).loc[("sampled", "accuracy_lenient"), "high"] < 0.8
    assert lenient["p"] == 1
    assert lenient["p_equivalent"] == pytest.approx(0.02, abs=0.005)  # the interval is just inside of .9 to both sides
    assert np.isnan(table.loc[("sampled", "tokens"), "p_equivalent"])  # the margin is one of shares
    tokens = table.loc[("greedy", "tokens")]  # no difference, either: that may be as large as the mean length elsewhere
    assert (tokens["estimate"], tokens["high"]) == (0, pytest.approx(0.8419 * 20, rel=1e-3))


@pytest.mark.parametrize(
    ("own", "other", "estimate", "seeds"),
    [
        # the base is right in three quarters of the sampled answers, the better one in all; all seeds count
        ({0: BETTER, 1: SAMPLED}, {5: SAMPLED, 6: SAMPLED, 7: BETTER}, 0.25 / 2 - 0.25 / 3, 2),
        ({1: BETTER}, {0: BETTER, 1: SAMPLED}, 0.25, 1),  # an arm with one seed is compared with the same seed
    ],
    ids=["no common seed", "one seed"],
)
def test_arms_with_different_seeds_are_compared(own, other, estimate, seeds):
    row = differences(own, other).loc[("sampled", "accuracy_strict")]
    assert (row["estimate"], row["seeds"]) == (pytest.approx(estimate), seeds)


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


def test_pass_at_k_is_the_share_of_subsets_with_a_right_sample():
    assert [sizes(samples) for samples in (1, 2, 6, 8)] == [[1], [1, 2], [1, 2, 4, 6], [1, 2, 4, 8]]
    samples = [True, True, False, False, False]
    for size in (1, 2, 3, 5):
        expected = np.mean([any(subset) for subset in combinations(samples, size)])
        assert pass_at(np.array([2]), 5, size)[0] == pytest.approx(expected)
    assert pass_at(np.array([1]), 1000, 500)[0] == pytest.approx(0.5)  # it does not overflow


@pytest.mark.parametrize(
    ("answers", "right", "expected"),
    [
        (["7", "9", "9"], [True, False, False], 0.0),
        (["1/2", "0.5", "9", "9", "8"], [True, True, False, False, False], 0.5),  # right ones are one: 2, 2, 1
        (["7", "8", "9"], [True, False, False], 1 / 3),
        ([None, None, "7"], [False, False, True], 1.0),  # no answer, no vote
        ([None, None], [False, False], 0.0),
    ],
)
def test_majority(answers, right, expected):
    """Of a question, beside another one whose two answers are right, between its answers."""
    written = pd.factorize(np.array(["7", *answers, "7"], dtype=object))[0]
    question = np.array([1, *[0] * len(answers), 1])
    assert majority_right(question, written, np.array([True, *right, True])).tolist() == [pytest.approx(expected), 1.0]
