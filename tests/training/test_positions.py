"""The log-probabilities of a text are the same with padding before it: in every family of causal models."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from reward_ablation.models.check import reads_padding
from reward_ablation.training.around.run import build_trainer
from reward_ablation.training.core.model import COUNTED_FROM_PADDING, number_from_mask

from .conftest import job_of, model_of_type, spec_with

SIZES = {"vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
SIZES |= {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
GROUPED = {**SIZES, "intermediate_size": 48, "num_key_value_heads": 2}
GPT_NEO = {"num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]]}
#: Settings of a small model by its type: all that count from padding, and one of each other way to know positions.
CAUSAL = {
    "biogpt": {**SIZES, "intermediate_size": 48},
    "bloom": {**SIZES, "n_head": 4},
    "ctrl": {"vocab_size": 96, "n_embd": 32, "n_layer": 2, "n_head": 4, "dff": 48},
    "gpt2": SIZES,
    "gpt_bigcode": SIZES,
    "gpt_neo": {**SIZES, **GPT_NEO},
    "lfm2": {**GROUPED, "layer_types": ["conv", "full_attention"]},
    "llama": GROUPED,
    "mamba": {"vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4},
    "openai-gpt": SIZES,
    "opt": {**SIZES, "ffn_dim": 48, "word_embed_proj_dim": 32},
    "xglm": {"vocab_size": 96, "d_model": 32, "num_layers": 2, "attention_heads": 4, "ffn_dim": 48},
}
#: An encoder, half of an encoder-decoder, and two of the types that are listed by name.
REFUSED = {
    "bart": {"vocab_size": 96, "d_model": 32, "decoder_layers": 2, "decoder_attention_heads": 4, "decoder_ffn_dim": 48},
    "bert-generation": {**SIZES, "intermediate_size": 48, "is_decoder": True},
    "doge": GROUPED,
    "rwkv": {"vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2},
}


def small_model(kind):
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **{**CAUSAL, **REFUSED}[kind])
    model = AutoModelForCausalLM.from_config(config).float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.normal_(std=0.3)  # the order of the words counts
    return model


def change_by_padding(model, padding=5):
    """Mean absolute change of log-probabilities, in nats, by tokens of padding before a text."""
    text = torch.randint(3, 90, (1, 12), generator=torch.Generator().manual_seed(0))
    left = torch.full((1, padding), 2)
    mask = torch.cat([torch.zeros_like(left), torch.ones_like(text)], dim=1)
    with torch.no_grad():
        alone = model(input_ids=text, attention_mask=torch.ones_like(text), use_cache=False).logits
        padded = model(input_ids=torch.cat([left, text], dim=1), attention_mask=mask, use_cache=False).logits
    return float((alone.log_softmax(-1) - padded[:, padding:].log_softmax(-1)).abs().mean())


@pytest.mark.parametrize("kind", sorted(CAUSAL.keys() | COUNTED_FROM_PADDING))
def test_padding_changes_no_log_probability(kind):
    model = small_model(kind)
    if kind in COUNTED_FROM_PADDING:
        assert change_by_padding(model) > 0.01, f"transformers numbers the tokens of {kind} from the mask: leave it out"
    number_from_mask(model)
    assert change_by_padding(model) < 1e-4
    assert not reads_padding(kind)


@pytest.mark.parametrize("kind", REFUSED)
def test_models_that_are_refused_read_padding(kind):
    assert change_by_padding(small_model(kind)) > 0.01, f"transformers hides padding from {kind}: refuse it no more"
    assert reads_padding(kind)


@pytest.mark.parametrize("lora", [False, True], ids=["full", "LoRA"])
def test_a_run_of_gpt2_scores_padded_prompts_as_it_generates_them(tmp_path, demo_model, problems, lora):
    sizes = {name: SIZES[name] for name in ("hidden_size", "num_hidden_layers", "num_attention_heads")}
    model = model_of_type("gpt2", demo_model, tmp_path / "model", n_positions=256, **sizes)
    adapter = {"lora": {"r": 2, "lora_alpha": 4, "target_modules": ["c_attn"]}} if lora else {}
    trainer = build_trainer(job_of(spec_with(training={"beta": 0.1}, **adapter), tmp_path, model, problems))
    for each in [trainer.model] if lora else [trainer.model, trainer.ref_model]:
        assert change_by_padding(each.eval()) < 1e-4
