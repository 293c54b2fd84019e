"""Which layers are recognised by what they compute: a table of layers, each with its reason."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils import weight_norm
from transformers.models.cohere2.modeling_cohere2 import Cohere2LayerNorm
from transformers.models.gemma3.modeling_gemma3 import Gemma3TextScaledWordEmbedding
from transformers.models.t5.modeling_t5 import T5LayerNorm

from reward_ablation.training.core.gradients.layers import _kind_of
from reward_ablation.training.core.gradients.recorder import Recorder, layer_of


class Tanh(nn.Module):
    """A layer in the place of a norm, with parameters of two shapes."""

    def __init__(self):
        super().__init__()
        self.alpha, self.weight, self.bias = (nn.Parameter(torch.randn(size)) for size in (1, 8, 8))

    def forward(self, inputs):
        return torch.tanh(self.alpha * inputs) * self.weight + self.bias


class AcrossCompletions(Tanh):
    def forward(self, inputs):
        return super().forward(inputs - inputs.mean(0))


class WithAMask(Tanh):
    def forward(self, inputs, mask):
        return super().forward(inputs) * mask


class WithAChild(Tanh):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)


class ShiftedEmbedding(nn.Embedding):
    """A layer whose name ends like Gemma's and which computes something else."""

    embed_scale = 2.0

    def forward(self, ids):
        return super().forward(ids + 1) * self.embed_scale


#: `test_exact.py` has the layers of its models, and their gradients.
KNOWN = {
    "Gemma's embedding": Gemma3TextScaledWordEmbedding(20, 8, padding_idx=0, embed_scale=3.0),
    "T5's norm": T5LayerNorm(8),
    "a norm over heads": Cohere2LayerNorm((2, 4)),
    "no norm at all": Tanh(),
}
UNKNOWN = {
    "completions are mixed": AcrossCompletions(),
    "more than one input": WithAMask(),
    "parameters of other layers": WithAChild(),
    "an embedding that looks up other rows": ShiftedEmbedding(20, 8),
    "rows are shortened as they are looked up": nn.Embedding(20, 8, max_norm=1.0),
    "the weight is made of two others": weight_norm(nn.Linear(8, 8)),
    "a batch norm": nn.BatchNorm1d(8),
    "too large for copies": Cohere2LayerNorm((2**10, 2**10 + 1)),
}


@pytest.mark.parametrize("layer", KNOWN.values(), ids=KNOWN)
def test_known_layers_give_what_they_give_unwatched(layer):
    kind = _kind_of(layer)
    assert kind is not None
    recorder = Recorder()
    recorder.batch = 3
    names = {name: name for name, _ in layer.named_parameters()}
    shape = tuple(layer.weight.shape) if layer.weight.shape == (2, 4) else (8,)
    inputs = torch.randint(20, (3, 5)) if isinstance(layer, nn.Embedding) else torch.randn(3, 5, *shape)
    assert torch.allclose(kind(layer, layer.forward, names, recorder, inputs), layer(inputs), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("layer", UNKNOWN.values(), ids=UNKNOWN)
def test_other_layers_are_unknown(layer):
    assert _kind_of(layer) is None


@pytest.mark.parametrize("make", [Tanh, lambda: nn.BatchNorm1d(8), lambda: Gemma3TextScaledWordEmbedding(9, 8, 0, 3.0)])
def test_a_trial_leaves_the_layer_and_random_numbers_alone(make):
    layer = make()
    before, state = {name: value.clone() for name, value in layer.state_dict().items()}, torch.get_rng_state()
    _kind_of(layer)
    assert torch.equal(torch.get_rng_state(), state)
    assert not {"weight", "alpha", "bias"} & layer.__dict__.keys()
    assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())


@pytest.mark.parametrize(
    ("parameter", "layer"),
    [
        ("model.embed_tokens.weight", "embed_tokens"),
        ("transformer.h.3.mlp.c_fc.weight", "layers.3"),  # GPT-2's name of a block
        ("base_model.model.model.layers.2.mlp.up_proj.lora_A.default.weight", "layers.2"),
        ("base_model.model.lm_head.lora_B.default.weight", "lm_head"),
    ],
)
def test_layer_of(parameter, layer):
    assert layer_of(parameter) == layer
