"""PPO with one rollout per prompt, and GRPO, against losses and gradients written out in float64.

The objective is that of a plain PPO step with a reference model, min(ρA, clip(ρ)A) - β(e^(ref-π) - (ref-π) - 1), its
mean over a completion's tokens, then over completions; ρ is taken against the policy that sampled.
"""

import math

import pytest
import torch

from reward_ablation.training.core.advantages import component_advantages

from .conftest import COMPLETION, batch_of
from .test_exact import off_policy

CLIP, BETA = 0.2, 0.04


def token_objective(ratio, advantage, to_reference):
    """Objective of one token; `to_reference` is the reference's log-probability less the policy's."""
    clipped = torch.clamp(ratio, 1 - CLIP, 1 + CLIP)
    kl = torch.exp(to_reference) - to_reference - 1
    return torch.minimum(ratio * advantage, clipped * advantage) - BETA * kl


#: Format 1.25 or -1, answer 1 or -1: right and well formed, wrong and neither, ...
SCORES = [[1.25, 1], [-1, -1], [1.25, -1], [-1, 1], [1.25, 1], [1.25, -1]]
REWARDS = [2.25, -2, 0.25, 0, 2.25, 0.25]

#: Deviations from the mean and deviation (n - 1) of each three: 2.25 -2 .25 have the mean 1/6 and the variance 217/24,
#: over 2; 0 2.25 .25 have 5/6 and 73/24.
THREES = [
    *((deviation, math.sqrt(217 / 48)) for deviation in (25 / 12, -13 / 6, 1 / 12)),
    *((deviation, math.sqrt(73 / 48)) for deviation in (-5 / 6, 17 / 12, -7 / 12)),
]


@pytest.mark.parametrize(
    ("group", "by_hand"),
    [
        (1, REWARDS),  # PPO: the reward is the advantage
        (3, [deviation / (spread + 1e-4) for deviation, spread in THREES]),
    ],
    ids=["ppo", "groups of 3"],
)
def test_advantages_and_the_training_gradient(pair, group, by_hand):
    how = ("none" if group == 1 else "group", "sum_then_normalize")
    weights = torch.ones(2, dtype=torch.float64)
    shares = component_advantages(torch.tensor(SCORES, dtype=torch.float64), weights, group, *how)
    assert shares.sum(1).tolist() == pytest.approx(by_hand, abs=1e-9)

    # TRL's own default multiplies the KL term by the ratio.
    settings = {"beta": BETA, "use_bias_correction_kl": False, "epsilon": CLIP, "loss_type": "grpo"}
    both = pair("qwen2", num_generations=group, per_device_train_batch_size=6, **settings)
    assert both.ours.args.num_generations == both.ours.num_generations == group
    batch = batch_of(6, both.ours.model.config.vocab_size)
    batch["advantages"] = shares.sum(1)
    off_policy(both, batch)
    both.ours.measure_every = 0
    trained = both.step(both.ours, [batch])
    losses = [trainer._compute_loss(trainer.model, dict(batch)).item() for trainer in (both.ours, both.plain)]

    model, mask = both.plain.model, batch["completion_mask"].bool()
    model.zero_grad()
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    attention = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
    logits = model(input_ids=ids, attention_mask=attention).logits[:, -COMPLETION - 1 : -1]
    policy = torch.log_softmax(logits, -1).gather(2, ids[:, -COMPLETION:, None])[:, :, 0]
    objective = token_objective(
        torch.exp(policy - batch["old_per_token_logps"]),
        torch.tensor(by_hand, dtype=torch.float64)[:, None],
        batch["ref_per_token_logps"] - policy,
    )
    written_out = -((objective * mask).sum(1) / mask.sum(1)).mean()
    written_out.backward()
    assert losses == pytest.approx([written_out.item()] * 2, rel=1e-12)
    for name, part in both.named(both.plain).items():
        assert (trained[name] - part.grad).abs().max() < 1e-9, name
        assert part.grad.abs().max() > 0
