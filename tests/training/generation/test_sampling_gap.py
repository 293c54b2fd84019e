"""The sampling gap of each completion, the completions that the correction cuts off, and the gap that ends a run."""

import math

import pytest
import torch

from reward_ablation.spec.run import VllmSpec
from reward_ablation.system.errors import StudyError
from reward_ablation.training.around.gap_watch import GapWatch
from reward_ablation.training.core.rollouts import sampling_gap
from reward_ablation.training.core.settings import grpo_config

MASK = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
SAMPLER = torch.full((2, 4), -2.0)
#: Differences of 0, 0.5, -1.5, 2; and of 0.1 and 0.1, then padding.
TRAINER = torch.tensor([[-2.0, -1.5, -3.5, 0.0], [-1.9, -1.9, 9.0, 9.0]])


def gap_of(trainer=TRAINER, sampler=SAMPLER, mask=MASK, by_sequence=False):
    """The gap where TRL cuts ratios of tokens off at 3, or leaves completions with a ratio above 3 out."""
    difference = (trainer - SAMPLER) * MASK
    ratio = torch.exp(difference.sum(1, keepdim=True) if by_sequence else difference)
    cut = ratio.masked_fill(ratio > 3.0, 0.0) if by_sequence else ratio.clamp(max=3.0)
    return sampling_gap(trainer, sampler, mask, cut, by_sequence)


def test_gap_and_what_is_cut_off():
    """A completion's ratio counts for all its tokens."""
    by_token, by_sequence = gap_of(), gap_of(by_sequence=True)
    assert by_token["sampling_gap"] == by_sequence["sampling_gap"] == pytest.approx([1.0, 0.1])
    assert by_token["sampling_corrected"] == [0.25, 0.0]  # exp(2) alone is over 3
    assert by_sequence["sampling_corrected"] == [0.0, 0.0]  # exp(1) and exp(0.2)
    assert gap_of(TRAINER + 0.5 * MASK, by_sequence=True)["sampling_corrected"] == [1.0, 1.0]


def test_a_token_without_a_log_probability_and_a_completion_that_is_masked_have_no_gap():
    sampler = SAMPLER.clone()
    sampler[0, 3] = math.nan
    gap = gap_of(sampler=sampler, mask=MASK * torch.tensor([[1], [0]]))
    assert gap["sampling_gap"] == pytest.approx([0.5, math.nan], nan_ok=True)
    assert math.isnan(gap["sampling_corrected"][1])


@pytest.mark.parametrize("large", [0.11, math.nan])
def test_gaps_beyond_rounding_end_the_run_at_the_third_in_a_row(large):
    watch = GapWatch({"top_p": 1.0, "top_k": 0, "min_p": None, "repetition_penalty": 1.0, "generation_kwargs": None})
    for step, gap in enumerate([large, large, 0.05, large, large], start=1):
        watch.see(gap, step)
    with pytest.raises(StudyError, match=r"launch\.vllm: for 3 generations in a row, up to step 6, vLLM's log-probab"):
        watch.see(large, 6)


@pytest.mark.parametrize("setting", [{"top_p": 0.9}, {"generation_kwargs": {"stop": "x"}}])
def test_where_vllm_samples_from_a_cut_distribution_no_gap_ends_a_run(setting):
    watch = GapWatch(setting)
    for step in range(1, 9):
        watch.see(1.0, step)
    assert watch.in_a_row == 0


def test_the_default_correction_is_by_token(tmp_path):
    """A bound on the product of all ratios would leave long completions out more often than short ones."""
    default = grpo_config({}, tmp_path, 0, on_cpu=True, vllm=VllmSpec(mode="colocate", tensor_parallel_size=1))
    assert default.vllm_importance_sampling_mode == "token_truncate"
