"""The log-probabilities of a text are the same with padding before it: in every family of causal models."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from reward_ablation.models.check import reads_padding
from reward_ablation.spec.run import RunSpec
from reward_ablation.training.core.model import COUNTED_FROM_PADDING, number_from_mask

from .conftest import model_of_type, spec_with

SIZES = {"vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
SIZES |= {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
GROUPED = {**SIZES, "intermediate_size": 48, "num_key_value_heads": 2}
MAMBA2 = {"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_n_groups": 1, "mamba_d_state": 8, "mamba_expand": 2}
LINEAR = {"linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8}
EXPERTS = {"num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 16}
#: Settings of a small model by its type: all that count from padding, and one of each other way to know positions.
CAUSAL = {
    "biogpt": {**SIZES, "intermediate_size": 48},
    "bloom": {**SIZES, "n_head": 4},
    "ctrl": {"vocab_size": 96, "n_embd": 32, "n_layer": 2, "n_head": 4, "dff": 48},
    "falcon": {**SIZES, "alibi": True},
    "gemma3_text": {**GROUPED, "head_dim": 8},
    "gpt2": SIZES,
    "gpt_bigcode": SIZES,
    "gpt_neo": {**SIZES, "num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]]},
    "gptj": {**SIZES, "rotary_dim": 4},
    "granitemoehybrid": {
        **{**GROUPED, **MAMBA2, "layer_types": ["mamba", "attention"], "num_local_experts": 2},
        **{"num_experts_per_tok": 1, "shared_intermediate_size": 16},
    },
    "lfm2": {**GROUPED, "layer_types": ["conv", "full_attention"]},
    "llama": GROUPED,
    "mamba": {"vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4},
    "openai-gpt": SIZES,
    "opt": {**SIZES, "ffn_dim": 48, "word_embed_proj_dim": 32},
    "qwen3_next": {
        **{**GROUPED, **LINEAR, **EXPERTS, "head_dim": 8, "shared_expert_intermediate_size": 16},
        "layer_types": ["linear_attention", "full_attention"],
    },
    "xglm": {"vocab_size": 96, "d_model": 32, "num_layers": 2, "attention_heads": 4, "ffn_dim": 48},
}
REFUSED = {
    "bart": {"vocab_size": 96, "d_model": 32, "decoder_layers": 2, "decoder_attention_heads": 4, "decoder_ffn_dim": 48},
    "bert-generation": {**SIZES, "intermediate_size": 48, "is_decoder": True},
    "cpmant": {"vocab_size": 96, "hidden_size": 32, "num_attention_heads": 4, "dim_head": 8, "dim_ff": 48},
    "deepseek_v4": {
        **{**SIZES, "num_key_value_heads": 1, "head_dim": 16, "q_lora_rank": 16, "n_routed_experts": 2},
        **{"num_experts_per_tok": 1, "moe_intermediate_size": 16, "layer_types": ["compressed_sparse_attention"] * 2},
    },
    "doge": GROUPED,
    "recurrent_gemma": {
        **{**GROUPED, "lru_width": 32, "attention_window_size": 64},
        "block_types": ["recurrent", "attention"],
    },
    "rwkv": {"vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2},
    "xlstm": {"vocab_size": 96, "hidden_size": 32, "num_heads": 4, "num_blocks": 2},
}


def small_model(kind):
    torch.manual_seed(0)
    settings = CAUSAL.get(kind) or REFUSED[kind]
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **settings)).float().eval()
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


@pytest.mark.parametrize("kind", CAUSAL)
def test_padding_changes_no_log_probability(kind):
    model = small_model(kind)
    if kind in COUNTED_FROM_PADDING:
        assert change_by_padding(model) > 0.01, f"transformers numbers the tokens of {kind} from the mask: leave it out"
    number_from_mask(model)
    assert change_by_padding(model) < 1e-4
    assert not reads_padding(kind)


def test_every_type_that_counts_from_padding_is_tried():
    assert set(CAUSAL) >= COUNTED_FROM_PADDING


@pytest.mark.parametrize("kind", REFUSED)
def test_models_that_are_refused_read_padding(kind):
    assert change_by_padding(small_model(kind)) > 0.01, f"transformers hides padding from {kind}: refuse it no more"
    assert reads_padding(kind)


def test_minimax_reads_padding_once_it_generates():
    """Its cache has the length of the first layer, which is 0 where this layer has linear attention."""
    kinds = {"layer_types": ["linear_attention", "full_attention"], "num_local_experts": 2, "num_experts_per_tok": 1}
    config = AutoConfig.for_model("minimax", **{**GROUPED, **kinds, "head_dim": 8, "initializer_range": 0.3})
    torch.manual_seed(0)
    model, text = AutoModelForCausalLM.from_config(config).eval(), torch.arange(3, 15)[None]
    alone, padded = (
        model.generate(
            input_ids=torch.cat([torch.zeros(1, padding, dtype=torch.long), text], dim=1),
            attention_mask=torch.tensor([[0] * padding + [1] * 12]),
            **{"max_new_tokens": 8, "do_sample": False, "eos_token_id": None},
        )[0, padding:]
        for padding in (0, 5)
    )
    assert not torch.equal(alone, padded), "transformers hides padding from minimax: refuse it no more"
    assert reads_padding("minimax")


@pytest.mark.parametrize("lora", [False, True], ids=["full", "LoRA"])
def test_a_run_of_gpt2_scores_padded_prompts_as_it_generates_them(tmp_path, demo_model, problems, lora):
    from reward_ablation.training.around.job import TrainingJob
    from reward_ablation.training.around.run import build_trainer

    sizes = {name: SIZES[name] for name in ("hidden_size", "num_hidden_layers", "num_attention_heads")}
    model = model_of_type("gpt2", demo_model, tmp_path / "model", n_positions=256, **sizes)
    adapter = {"lora": {"r": 2, "lora_alpha": 4, "target_modules": ["c_attn"]}} if lora else {}
    spec = RunSpec.read(spec_with(training={"beta": 0.1}, **adapter))
    trainer = build_trainer(TrainingJob(spec, "code", model, problems, tmp_path))
    models = [trainer.model] if lora else [trainer.model, trainer.ref_model]
    for each in models:
        assert change_by_padding(each.eval()) < 1e-4
