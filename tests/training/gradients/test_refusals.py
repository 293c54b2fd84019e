"""Models that cannot be measured right are refused, and unmeasured runs train as TRL does."""

import pytest
import torch
from torch import nn

from reward_ablation.system.errors import StudyError

from .conftest import batch_of


def step(pair):
    batch = batch_of(6, len(pair.ours.processing_class), 2, pair.ours._tokenizer.pad_token_id)
    return pair.step(pair.ours, [dict(batch)]), pair.step(pair.plain, [dict(batch)])


def test_a_mixture_of_experts_is_refused_by_name(pair):
    with pytest.raises(StudyError, match=r"model.layers.0.mlp.* cannot be separated by completion"):
        pair("mixtral")


@pytest.mark.parametrize(
    ("model", "lora"),
    [
        ("mixtral", None),
        ("mixtral", {"r": 2, "lora_alpha": 4, "target_modules": "all-linear"}),
        ("opt", {"r": 2, "lora_alpha": 4, "target_modules": "all-linear"}),
    ],
)
def test_what_cannot_be_measured_trains_unmeasured(pair, model, lora):
    """Experts get tokens of all completions mixed, and so do OPT's linear layers, which flatten their inputs."""
    ours, plain = step(pair(model, lora=lora, measure_every=0))
    for name, part in plain.items():
        assert (ours[name] - part).abs().max() <= 1e-5 * part.abs().max() + 1e-9, name


def test_mixed_completions_are_refused_where_they_would_be_measured(pair):
    lora = {"r": 2, "lora_alpha": 4, "target_modules": "all-linear"}
    with pytest.raises(StudyError, match=r"fc1.lora_A.*mixes tokens of several completions"):
        step(pair("opt", lora=lora))


def test_adapters_of_experts_are_refused_measured(pair):
    """Peft multiplies their weights and never calls them."""
    lora = {"r": 2, "lora_alpha": 4, "target_modules": "all-linear", "target_parameters": ["experts.gate_up_proj"]}
    with pytest.raises(StudyError, match=r"lora_.*cannot be separated by completion; set gradients.every"):
        pair("mixtral", lora=lora)


def test_a_layer_that_has_been_replaced_is_refused_measured(pair, monkeypatch):
    from . import conftest

    made = conftest.tiny_model

    def replaced(name, words):
        model = made(name, words)
        norm = model.model.norm
        norm.forward = lambda inputs: inputs * norm.weight
        return model

    monkeypatch.setattr(conftest, "tiny_model", replaced)
    with pytest.raises(StudyError, match=r"model.norm.weight, of a LlamaRMSNorm, cannot be separated"):
        pair()


class MeanRMSNorm(nn.Module):
    """A layer that is called a norm and mixes completions."""

    def __init__(self, norm):
        super().__init__()
        self.weight = norm.weight

    def forward(self, inputs):
        return self.weight * (inputs - inputs.mean(0))


class BatchedRMSNorm(MeanRMSNorm):
    """A layer that is called a norm and accepts only one weight for all completions, as torch's functions do."""

    def forward(self, inputs):
        return nn.functional.rms_norm(inputs, self.weight.shape, self.weight)


@pytest.mark.parametrize("norm", [MeanRMSNorm, BatchedRMSNorm])
def test_the_name_of_a_layer_counts_for_nothing(pair, monkeypatch, norm):
    """Refused where it would be measured, and else trained by TRL's own backward pass."""
    from . import conftest

    made = conftest.tiny_model

    def replaced(name, words):
        model = made(name, words)
        model.model.norm = norm(model.model.norm)
        return model

    monkeypatch.setattr(conftest, "tiny_model", replaced)
    with pytest.raises(StudyError, match=rf"model.norm.weight, of a {norm.__name__}, cannot be separated"):
        pair()
    unmeasured = pair(measure_every=0)
    assert not unmeasured.ours._by_completion
    ours, plain = step(unmeasured)
    for name, part in plain.items():
        assert (ours[name] - part).abs().max() <= 1e-5 * part.abs().max() + 1e-9, name


@pytest.mark.parametrize("model", ["llama", "mixtral"])
def test_a_setting_trains_by_trls_own_backward_pass(pair, model):
    """Nothing of the model is touched, whatever its layers compute."""
    own = pair(model, measure_every=0, by_completion=False)
    _, *layers = own.ours.model.modules()  # TRL replaces the pass of the model itself
    assert not any("forward" in layer.__dict__ for layer in layers)
    ours, plain = step(own)
    for name, part in plain.items():
        assert (ours[name] - part).abs().max() <= 1e-5 * part.abs().max() + 1e-9, name


@pytest.mark.parametrize("measure_every", [0, 1])
def test_a_layer_that_is_replaced_after_all_ends_the_training(pair, measure_every):
    """The gradient would lack advantages: no step is taken with it."""
    pair = pair(measure_every=measure_every)
    layer = pair.ours.model.model.layers[1].mlp.up_proj
    layer.forward = lambda inputs: nn.functional.linear(inputs, layer.weight)
    with pytest.raises(
        StudyError, match=r"gradient of model.layers.1.mlp.up_proj.weight(: the model| was not measured)"
    ):
        step(pair)


def test_a_layer_that_is_called_twice_ends_the_training(pair):
    pair = pair(measure_every=0)
    norm = pair.ours.model.model.norm
    pair.ours.model.model.layers[1].register_forward_hook(lambda module, inputs, output: norm(output))
    with pytest.raises(StudyError, match=r"32 of 16 numbers of the gradient of model.norm.weight"):
        step(pair)


def test_a_weight_of_two_layers_is_refused(pair, monkeypatch):
    from . import conftest

    made = conftest.tiny_model

    def shared(name, words):
        model = made(name, words)
        model.model.layers[1].mlp.up_proj.weight = model.model.layers[0].mlp.up_proj.weight
        return model

    monkeypatch.setattr(conftest, "tiny_model", shared)
    with pytest.raises(StudyError, match=r"model.layers.0.mlp.up_proj.weight, shared by several layers"):
        pair()


def test_watching_leaves_nothing_in_a_saved_model(pair, tmp_path):
    model = pair().ours.model
    model.save_pretrained(tmp_path / "saved")
    again = type(model).from_pretrained(tmp_path / "saved", dtype=torch.float64)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))
