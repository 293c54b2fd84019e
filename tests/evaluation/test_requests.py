import numpy as np
import pytest

from reward_ablation.config.sections.evaluation import Evaluation
from reward_ablation.evaluation.requests import Completion, Request, cut_at_end, list_requests, request_seed
from reward_ablation.sampling.draws import uniforms


@pytest.mark.parametrize(
    ("greedy", "samples", "expected"),
    [
        # by problem, the greedy one first
        (True, 2, ["a greedy 0", "a sampled 0", "a sampled 1", "b greedy 0", "b sampled 0", "b sampled 1"]),
        (True, 0, ["a greedy 0", "b greedy 0"]),
        (False, 1, ["a sampled 0", "b sampled 0"]),
    ],
)
def test_requests_are_listed_in_the_order_of_the_rows(greedy, samples, expected):
    evaluation = Evaluation(answer_format="hash", greedy=greedy, samples=samples)
    requests = list_requests(["a", "b"], [[1], [2, 3]], evaluation)
    assert [f"{request.problem_id} {request.mode} {request.sample}" for request in requests] == expected
    assert all(request.prompt == [2, 3] for request in requests if request.problem_id == "b")


def test_every_request_has_its_own_stream_and_keeps_it():
    requests = [Request(problem, "sampled", sample, [1]) for problem in ("a", "b", "a/1") for sample in (0, 1, 11)]
    seeds = {request_seed(request, seed) for request in requests for seed in (0, 1)}
    assert len(seeds) == 2 * len(requests)
    assert all(0 <= seed < 2**63 for seed in seeds)
    # Written down, since a change would change every sampled answer of every study.
    assert request_seed(Request("a", "sampled", 0, [1]), 0) == 7501225599165244262
    np.testing.assert_array_equal(uniforms(7, 8), uniforms(7, 32)[:8])  # more tokens begin with the same numbers


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([5, 6, 7], Completion([5, 6, 7], truncated=True)),
        ([5, 9, 8, 0], Completion([5, 9], truncated=False)),  # another end token and padding behind the first
        ([9, 5, 6], Completion([9], truncated=False)),  # ends at once: one token, as in TRL
        ([5, 6, 8], Completion([5, 6, 8], truncated=False)),  # a second end token, at the last place
    ],
)
def test_a_completion_goes_to_its_first_end_token(ids, expected):
    assert cut_at_end(ids, [8, 9]) == expected
