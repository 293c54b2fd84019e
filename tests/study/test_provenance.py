"""The digests of runs that are scored by different components can be compared."""

from reward_ablation.study.core_digest import training_digest, training_modules
from reward_ablation.study.provenance import Trained, comparable_codes

TWO, THREE = ["correctness", "answer_format"], ["correctness", "answer_format", "random"]


def of(functions, code=None, **changes):
    return Trained(code or training_digest(functions), functions, training_modules(functions) | changes)


def test_runs_of_todays_code_have_one_digest_whatever_scores_them():
    codes = comparable_codes({"full": of(TWO), "random_only": of(THREE)}, THREE)
    assert codes == dict.fromkeys(["full", "random_only"], training_digest(THREE))
    assert training_digest(TWO) != training_digest(THREE)


def test_runs_that_the_same_components_score_keep_their_own():
    runs = {"one": of(TWO, code="0" * 16), "two": of(TWO), "three": of(TWO, code="1" * 16)}
    assert comparable_codes(runs, TWO) == {name: run.code for name, run in runs.items()}


def test_runs_of_older_code_are_compared_by_the_modules_that_they_share():
    old = {"reward_ablation.training.core.advantages": "0"}
    runs = {"full": of(TWO, "0" * 16, **old), "random_only": of(THREE, "1" * 16, **old)}
    assert comparable_codes(runs, THREE) == dict.fromkeys(runs, "0" * 16)
    runs["random_only"] = of(THREE, "1" * 16)  # of another core
    assert comparable_codes(runs, THREE) == {"full": "0" * 16, "random_only": "1" * 16}
