"""Which layers are recognised by what they compute; what cannot be measured is refused, or trains unmeasured."""

import pytest
import torch
from torch import nn
from transformers.models.cohere2.modeling_cohere2 import Cohere2LayerNorm
from transformers.models.gemma3.modeling_gemma3 import Gemma3TextScaledWordEmbedding
from transformers.models.t5.modeling_t5 import T5LayerNorm

from reward_ablation.system.errors import StudyError
from reward_ablation.training.core.gradients.layers import _kind_of
from reward_ablation.training.core.gradients.recorder import Recorder

from . import conftest
from .conftest import batch_of


class Tanh(nn.Module):
    """A layer in the place of a norm, with parameters of two shapes."""

    def __init__(self):
        super().__init__()
        self.alpha, self.weight, self.bias = (nn.Parameter(torch.randn(size)) for size in (1, 8, 8))

    def forward(self, inputs):
        return torch.tanh(self.alpha * inputs) * self.weight + self.bias


def changed(layer, *sizes, **attributes):
    """A layer of a class like another one, but for some attributes."""
    return type("Changed", (layer,), attributes)(*sizes)


def with_more(layer, **parts):
    """The layer with more parameters or layers."""
    for name, part in parts.items():
        setattr(layer, name, part)
    return layer


#: `test_exact.py` has the layers of its models, and their gradients.
KNOWN = {
    "Gemma's embedding": Gemma3TextScaledWordEmbedding(20, 8, padding_idx=0, embed_scale=3.0),
    "T5's norm": T5LayerNorm(8),
    "a norm over heads": Cohere2LayerNorm((2, 4)),
    "no norm at all": Tanh(),
}
UNKNOWN = {
    "completions are mixed": changed(Tanh, forward=lambda self, inputs: Tanh.forward(self, inputs - inputs.mean(0))),
    "more than one input": changed(Tanh, forward=lambda self, inputs, mask: Tanh.forward(self, inputs) * mask),
    "parameters of other layers": with_more(Tanh(), inner=nn.Linear(8, 8)),
    "the weight is made of others": with_more(nn.Linear(8, 8), weight_g=nn.Parameter(torch.ones(8, 1))),
    "an embedding that looks up other rows": changed(
        nn.Embedding, 20, 8, embed_scale=2.0, forward=lambda self, ids: 2 * nn.Embedding.forward(self, ids + 1)
    ),
    "rows are shortened as they are looked up": nn.Embedding(20, 8, max_norm=1.0),
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


@pytest.mark.parametrize("layer", [Tanh(), nn.BatchNorm1d(8), Gemma3TextScaledWordEmbedding(9, 8, 0, 3.0)], ids=str)
def test_a_trial_leaves_the_layer_and_random_numbers_alone(layer):
    before, state = {name: value.clone() for name, value in layer.state_dict().items()}, torch.get_rng_state()
    _kind_of(layer)
    assert torch.equal(torch.get_rng_state(), state)
    assert not {"weight", "alpha", "bias"} & layer.__dict__.keys()
    assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())


def step(pair):
    batch = batch_of(6, len(pair.ours.processing_class), 2, pair.ours._tokenizer.pad_token_id)
    return pair.step(pair.ours, [dict(batch)]), pair.step(pair.plain, [dict(batch)])


def assert_close(pair):
    """One training step leaves the gradients that TRL's own would."""
    ours, plain = step(pair)
    for name, part in plain.items():
        assert (ours[name] - part).abs().max() <= 1e-5 * part.abs().max() + 1e-9, name


LORA = {"r": 2, "lora_alpha": 4, "target_modules": "all-linear"}


@pytest.mark.parametrize(("model", "lora"), [("mixtral", None), ("opt", LORA)])
def test_what_cannot_be_measured_trains_unmeasured(pair, model, lora):
    """Experts get tokens of all completions mixed, and so do OPT's linear layers, which flatten their inputs."""
    assert_close(pair(model, lora=lora, measure_every=0))


def test_mixed_completions_are_refused_where_they_would_be_measured(pair):
    with pytest.raises(StudyError, match=r"fc1.lora_A.*mixes tokens of several completions"):
        step(pair("opt", lora=LORA))


@pytest.mark.parametrize(
    ("lora", "message"),
    [
        (None, r"model.layers.0.mlp.* cannot be separated by completion"),
        # Peft multiplies the weights of such adapters and never calls them.
        ({**LORA, "target_parameters": ["experts.gate_up_proj"]}, r"lora_.*separated by completion; set gradients.e"),
    ],
)
def test_a_mixture_of_experts_is_refused_by_name(pair, lora, message):
    with pytest.raises(StudyError, match=message):
        pair("mixtral", lora=lora)


def replace_forward(model):
    norm = model.norm
    norm.forward = lambda inputs: inputs * norm.weight


def share_weight(model):
    model.layers[1].mlp.up_proj.weight = model.layers[0].mlp.up_proj.weight


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (replace_forward, r"model.norm.weight, of a LlamaRMSNorm, cannot be separated"),
        (share_weight, r"model.layers.0.mlp.up_proj.weight, shared by several layers"),
    ],
)
def test_an_unknown_layer_is_refused_measured_and_else_trained_by_trl(pair, monkeypatch, change, message):
    made = conftest.tiny_model

    def other_model(name, words):
        model = made(name, words)
        change(model.model)
        return model

    monkeypatch.setattr(conftest, "tiny_model", other_model)
    with pytest.raises(StudyError, match=message):
        pair()
    if change is not share_weight:  # which the reference would count twice
        unmeasured = pair(measure_every=0)
        assert not unmeasured.ours._by_completion
        assert_close(unmeasured)


def test_a_setting_trains_by_trls_own_backward_pass(pair):
    """Nothing of the model is touched, whatever its layers compute."""
    own = pair("mixtral", measure_every=0, by_completion=False)
    _, *layers = own.ours.model.modules()  # TRL replaces the pass of the model itself
    assert not any("forward" in layer.__dict__ for layer in layers)
    assert_close(own)


@pytest.mark.parametrize("measure_every", [0, 1])
def test_a_layer_that_is_replaced_after_all_ends_the_training(pair, measure_every):
    """The gradient would lack advantages: no step is taken with it."""
    pair = pair(measure_every=measure_every)
    layer = pair.ours.model.model.layers[1].mlp.up_proj
    layer.forward = lambda inputs: nn.functional.linear(inputs, layer.weight)
    told = r"gradient of model.layers.1.mlp.up_proj.weight(: the model| was not measured)"
    with pytest.raises(StudyError, match=told):
        step(pair)


def test_a_layer_that_is_called_twice_ends_the_training(pair):
    pair = pair(measure_every=0)
    norm = pair.ours.model.model.norm
    pair.ours.model.model.layers[1].register_forward_hook(lambda module, inputs, output: norm(output))
    with pytest.raises(StudyError, match=r"32 of 16 numbers of the gradient of model.norm.weight"):
        step(pair)
