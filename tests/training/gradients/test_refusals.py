"""Models that cannot be measured right are refused, and unmeasured runs train as TRL does."""

import pytest
from torch import nn

from reward_ablation.system.errors import StudyError

from . import conftest
from .conftest import batch_of


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

    def changed(name, words):
        model = made(name, words)
        change(model.model)
        return model

    monkeypatch.setattr(conftest, "tiny_model", changed)
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
