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


def corrected(mode):
    """Ratios as TRL has them for a mode with an upper bound of 3."""
    difference = (TRAINER - SAMPLER) * MASK
    ratio = torch.exp(difference.sum(1, keepdim=True) if mode.startswith("sequence") else difference)
    return ratio.clamp(max=3.0) if mode.endswith("truncate") else ratio.masked_fill(ratio > 3.0, 0.0)


@pytest.mark.parametrize(
    ("mode", "shares"),
    [
        ("token_truncate", [0.25, 0.0]),  # exp(2) alone is over 3
        ("sequence_mask", [0.0, 0.0]),  # exp(1) and exp(0.2)
    ],
)
def test_gap_and_what_is_cut_off(mode, shares):
    gap = sampling_gap(TRAINER, SAMPLER, MASK, corrected(mode), by_sequence=mode.startswith("sequence"))
    assert gap["sampling_gap"] == pytest.approx([1.0, 0.1])
    assert gap["sampling_corrected"] == shares


def test_a_sequence_ratio_counts_for_all_its_tokens():
    longer = TRAINER + 0.5 * MASK
    difference = (longer - SAMPLER) * MASK
    ratio = torch.exp(difference.sum(1, keepdim=True))
    gap = sampling_gap(longer, SAMPLER, MASK, ratio.masked_fill(ratio > 3.0, 0.0), by_sequence=True)
    assert gap["sampling_corrected"] == [1.0, 1.0]


def test_a_token_without_a_log_probability_and_a_completion_that_is_masked_have_no_gap():
    sampler, mask = SAMPLER.clone(), MASK * torch.tensor([[1], [0]])
    sampler[0, 3] = math.nan
    gap = sampling_gap(TRAINER, sampler, mask, corrected("token_truncate"), by_sequence=False)
    assert gap["sampling_gap"][0] == pytest.approx(0.5)
    assert math.isnan(gap["sampling_gap"][1])
    assert math.isnan(gap["sampling_corrected"][1])


@pytest.mark.parametrize("large", [0.11, math.nan])
def test_gaps_beyond_rounding_end_the_run_at_the_third_in_a_row(large):
    watch = GapWatch({"top_p": 1.0, "top_k": 0, "min_p": None, "repetition_penalty": 1.0, "generation_kwargs": None})
    for step, gap in enumerate([large, large, 0.05, large, large], start=1):
        watch.see(gap, step)
    with pytest.raises(StudyError, match=r"launch\.vllm: for 3 generations in a row, up to step 6, vLLM's log-probab"):
        watch.see(large, 6)


@pytest.mark.parametrize(
    "setting",
    [{"top_p": 0.9}, {"top_k": 5}, {"min_p": 0.1}, {"repetition_penalty": 1.1}, {"generation_kwargs": {"stop": "x"}}],
)
def test_where_vllm_samples_from_a_cut_distribution_no_gap_ends_a_run(setting):
    watch = GapWatch(setting)
    for step in range(1, 9):
        watch.see(1.0, step)
    assert watch.in_a_row == 0


def test_the_default_correction_is_by_token(tmp_path):
    """A bound on the product of all ratios would leave long completions out more often than short ones."""
    default = grpo_config({}, tmp_path, 0, on_cpu=True, vllm=VllmSpec(mode="colocate", tensor_parallel_size=1))
    assert default.vllm_importance_sampling_mode == "token_truncate"
