"""Sample Gram matrices against those of another library, and properties of every Gram matrix."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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


@pytest.mark.parametrize("model", ["qwen2", "qwen3"])
def test_gram_equals_torchjds(pair, model):
    """torchjd (Quinton and Rey, arXiv 2406.16232) on untied models, where it is right."""
    autogram = pytest.importorskip("torchjd.autogram", reason="torchjd is not installed")
    pair = pair(model, loss_type="grpo")
    batch = batch_of(6, len(pair.ours.processing_class), pad=pair.ours._tokenizer.pad_token_id)
    ours = grams_of(pair, batch)
    owners = [module for module in pair.plain.model.modules() if list(module.parameters(recurse=False))]
    engine = autogram.Engine(*owners, batch_dim=0)
    theirs = engine.compute_gramian(losses_of(pair, batch)).detach().numpy()
    assert np.abs(ours.sum(0) - theirs).max() < 1e-10 * np.abs(theirs).max()


def test_gram_of_a_layer_is_that_of_its_parameters_gradients(pair):
    """Each entry by plain autograd, one completion at a time."""
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


@settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(model=st.sampled_from(["llama", "qwen2", "gpt2"]), rows=st.integers(1, 4), seed=st.integers(0, 1000))
def test_gram_is_symmetric_positive_and_follows_permutations(pair, model, rows, seed):
    pair = pair(model)
    batch = batch_of(2 * rows, len(pair.ours.processing_class), seed, pair.ours._tokenizer.pad_token_id)
    grams = grams_of(pair, batch)
    scale = np.trace(grams, axis1=1, axis2=2)[:, None, None] + 1e-300
    assert (np.abs(grams - grams.swapaxes(1, 2)) <= 1e-13 * scale).all()
    assert (np.linalg.eigvalsh(grams / scale) > -1e-12).all()
    order = torch.randperm(2 * rows, generator=torch.Generator().manual_seed(seed))
    permuted = {key: value[order] if value.dim() else value for key, value in batch.items()}
    assert (np.abs(grams_of(pair, permuted) - grams[:, order][:, :, order]) <= 1e-12 * scale).all()
