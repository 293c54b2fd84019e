"""Sample Gram matrices against plain autograd, one completion at a time."""

import numpy as np
import torch

from reward_ablation.training.core.gradients.recorder import layer_of
from reward_ablation.training.core.gradients.step import Completion

from .conftest import COMPLETION, batch_of


def grams_of(pair, batch):
    """(L, B, B) sample Gram matrices of a micro-batch, by our training step."""
    for row in batch["row"].tolist():
        pair.ours._completions[row] = Completion(1, "p", row % 2, row, row // 2)
    pair.ours._gradients.clear()
    pair.step(pair.ours, [batch])
    ((block, _),) = pair.ours._gradients.blocks
    return block.grams


def losses_of(pair, batch):
    """(B,) losses of single completions, loss type grpo, on policy: minus the mean log-probability over B."""
    log_probs, _, _ = pair.plain._get_per_token_logps_and_entropies(
        pair.plain.model,
        torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1),
        torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1),
        COMPLETION,
    )
    mask = batch["completion_mask"]
    return -(log_probs * mask).sum(1) / mask.sum(1) / len(mask)


def test_gram_of_a_layer_is_that_of_its_parameters_gradients(pair):
    pair = pair("llama", loss_type="grpo")
    batch = batch_of(4, len(pair.ours.processing_class), pad=pair.ours._tokenizer.pad_token_id)
    ours = grams_of(pair, batch)
    named = dict(pair.plain.model.named_parameters())
    rows = [
        torch.autograd.grad(loss, list(named.values()), retain_graph=True) for loss in losses_of(pair, batch).unbind()
    ]
    for number, layer in enumerate(pair.ours._gradients.layers):
        chosen = [place for place, name in enumerate(named) if layer_of(name) == layer]
        stacked = torch.stack([torch.cat([row[place].flatten() for place in chosen]) for row in rows])
        wanted = (stacked @ stacked.T).numpy()
        assert np.abs(ours[number] - wanted).max() < 1e-10 * np.abs(wanted).max(), layer
