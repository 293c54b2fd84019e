"""Tiny models in float64, micro-batches made by hand, and the reference: plain autograd through TRL's own loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from datasets import Dataset
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel
from transformers.models.cohere import modeling_cohere
from transformers.models.gemma2.modeling_gemma2 import Gemma2RMSNorm
from transformers.models.gemma3.modeling_gemma3 import Gemma3RMSNorm
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.qwen2.modeling_qwen2 import Qwen2RMSNorm
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm
from trl import GRPOTrainer

from reward_ablation.sampling.tokenizer import load_tokenizer
from reward_ablation.training.around.parts import PartWriter
from reward_ablation.training.core.gradients.step import Completion
from reward_ablation.training.core.settings import grpo_config, lora_config
from reward_ablation.training.core.trainer import AblationTrainer

COMPONENTS = ["correctness", "format", "length"]
WEIGHTS = {"correctness": 1.0, "format": 0.5, "length": 0.0}
PROMPT, COMPLETION = 7, 9  # tokens, with padding
SMALL = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4}
GROUPED = {**SMALL, "num_key_value_heads": 2}
GPT2 = {"n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 32, "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0}
OPT = {"hidden_size": 16, "ffn_dim": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "word_embed_proj_dim": 16}
NO_SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}  # theirs are beyond a small vocabulary

#: Types of models and their settings.
CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {**GROUPED, "tie_word_embeddings": True}),
    "qwen2": ("qwen2", {**GROUPED, "tie_word_embeddings": False}),
    "qwen3": ("qwen3", {**GROUPED, "head_dim": 4, "tie_word_embeddings": False}),
    # Its norms of heads have weights of two dimensions.
    "cohere": ("cohere", {**SMALL, **NO_SPECIAL, "use_qk_norm": True}),
    "torch's norm": ("llama", GROUPED),
    "gpt2": ("gpt2", GPT2),
    "gemma2": ("gemma2", {**GROUPED, "head_dim": 4}),
    "gemma3": ("gemma3_text", {**GROUPED, "head_dim": 4}),
    "phi": ("phi", {**SMALL, "resid_pdrop": 0, "embd_pdrop": 0}),
    "opt": ("opt", {**OPT, "dropout": 0}),
    "mixtral": ("mixtral", {**GROUPED, "num_local_experts": 2}),
    "dropout": ("llama", {**GROUPED, "attention_dropout": 0.3}),
}


def tiny_model(name: str, words: int) -> PreTrainedModel:
    """Random weights, biases and norms too, so that no gradient is there by chance."""
    torch.manual_seed(1)
    kind, settings = CONFIGS[name]
    config = AutoConfig.for_model(kind, vocab_size=words, **settings)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").double()
    if name == "mixtral":
        model.set_experts_implementation("eager")  # the other ones have no float64
    if name == "torch's norm":
        for part, module in list(model.named_modules()):
            if isinstance(module, LlamaRMSNorm):
                norm = nn.RMSNorm(len(module.weight), eps=module.variance_epsilon, dtype=torch.float64)
                model.set_submodule(part, norm)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    return model


class PlainTrainer(GRPOTrainer):
    """TRL's loss on log-probabilities of the model's own, untouched forward pass."""

    def _get_per_token_logps_and_entropies(self, model, input_ids, attention_mask, logits_to_keep, *args, **kwargs):
        logits = model(input_ids=input_ids, attention_mask=attention_mask).logits[:, -logits_to_keep - 1 : -1]
        log_probs = torch.log_softmax(logits / self.temperature, dim=-1)
        entropies = -(log_probs.exp() * log_probs).sum(-1)
        chosen = log_probs.gather(2, input_ids[:, -logits_to_keep:, None])[:, :, 0]
        mask = attention_mask[:, -logits_to_keep:].bool()
        return chosen.masked_fill(~mask, 0.0), entropies.masked_fill(~mask, 0.0), None


def batch_of(rows: int, words: int, seed: int = 0, pad: int = 0) -> dict[str, Tensor]:
    """A micro-batch as the loss gets it: with padding, words that come again, and a group without a signal."""
    generator = torch.Generator().manual_seed(seed)
    prompt = torch.randint(3, words, (rows, PROMPT), generator=generator)
    completion = torch.randint(3, min(words, 12), (rows, COMPLETION), generator=generator)  # words that come again
    prompt_mask = torch.arange(PROMPT) >= torch.randint(0, PROMPT - 2, (rows, 1), generator=generator)
    completion_mask = torch.arange(COMPLETION) < torch.randint(2, COMPLETION + 1, (rows, 1), generator=generator)
    alone = torch.randn(rows, len(COMPONENTS), generator=generator, dtype=torch.float64)
    shares = alone * torch.tensor(list(WEIGHTS.values()), dtype=torch.float64)
    shares[:2] = 0.0  # a group without a training signal, which components may yet tell apart
    return {
        "prompt_ids": prompt.masked_fill(~prompt_mask, pad),
        "prompt_mask": prompt_mask.long(),
        "completion_ids": completion.masked_fill(~completion_mask, pad),
        "completion_mask": completion_mask.long(),
        "advantages": shares.sum(1),
        "num_items_in_batch": completion_mask.sum(),
        "alone": alone,
        "shares": shares,
        "row": torch.arange(rows) + 100 * seed,
    }


def remember(trainer: AblationTrainer, batches: list[dict[str, Tensor]]) -> None:
    """Have the trainer know the completions of the micro-batches, in groups of two."""
    for row in torch.cat([batch["row"] for batch in batches]).tolist():
        trainer._completions[row] = Completion(1, f"problem{row // 2}", row % 2, row, row // 2)


@dataclass
class Pair:
    """Our trainer and the reference on models with the same weights."""

    ours: AblationTrainer
    plain: PlainTrainer

    def named(self, trainer: GRPOTrainer) -> dict[str, nn.Parameter]:
        return {name: part for name, part in trainer.model.named_parameters() if part.requires_grad}

    def step(self, trainer: GRPOTrainer, batches: list[dict[str, Tensor]]) -> dict[str, Tensor]:
        """Gradients that a training step over micro-batches leaves."""
        trainer.model.zero_grad()
        for batch in batches:
            torch.manual_seed(5)
            loss = trainer._compute_loss(trainer.model, dict(batch))
            loss.backward()
            if isinstance(trainer, AblationTrainer):
                trainer.keep_block()
        return {name: part.grad.clone() for name, part in self.named(trainer).items()}

    def gradient(self, batches: list[dict[str, Tensor]], column: Any, kl: bool = False) -> dict[str, Tensor]:
        """Plain autograd's gradient of the policy term at other advantages, or of the KL term."""
        beta, bonus = self.plain.beta, self.plain._entropy_bonus_enabled
        self.plain.beta, self.plain._entropy_bonus_enabled = beta if kl else 0.0, False
        try:
            return self.step(self.plain, [{**batch, "advantages": column(batch)} for batch in batches])
        finally:
            self.plain.beta, self.plain._entropy_bonus_enabled = beta, bonus


def norm_in_full(self, hidden_states: Tensor) -> Tensor:
    """Transformers' RMSNorm, but for its cast to float32."""
    variance = hidden_states.pow(2).mean(-1, keepdim=True)
    return self.weight * hidden_states * torch.rsqrt(variance + self.variance_epsilon)


def gemma_norm_in_full(self, x: Tensor) -> Tensor:
    """Gemma's RMSNorm, but for its cast to float32."""
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * (1.0 + self.weight)


def cohere_norm_in_full(self, hidden_states: Tensor) -> Tensor:
    """Cohere's LayerNorm, but for its cast to float32."""
    centred = hidden_states - hidden_states.mean(-1, keepdim=True)
    variance = centred.pow(2).mean(-1, keepdim=True)
    return self.weight * centred * torch.rsqrt(variance + self.variance_epsilon)


def rotated_in_full(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """Cohere's rotary embedding, but for its cast to float32."""
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return q * cos + modeling_cohere.rotate_half(q) * sin, k * cos + modeling_cohere.rotate_half(k) * sin


@pytest.fixture
def pair(demo_model, tmp_path, monkeypatch):
    """Both trainers: `pair(model, lora=..., placements=..., whole_at=..., by_completion=..., **training)`."""
    tokenizer = load_tokenizer(demo_model)
    for norm in (LlamaRMSNorm, Qwen2RMSNorm, Qwen3RMSNorm):
        monkeypatch.setattr(norm, "forward", norm_in_full)
    for norm in (Gemma2RMSNorm, Gemma3RMSNorm):
        monkeypatch.setattr(norm, "forward", gemma_norm_in_full)
    monkeypatch.setattr(modeling_cohere.CohereLayerNorm, "forward", cohere_norm_in_full)
    monkeypatch.setattr(modeling_cohere, "apply_rotary_pos_emb", rotated_in_full)

    def make(
        model="llama", lora=None, placements=None, measure_every=1, whole_at=(), by_completion=True, **training
    ) -> Pair:
        training.setdefault("num_generations", 2)
        settings = {"max_completion_length": COMPLETION, "per_device_train_batch_size": 8, **training}
        args = [grpo_config(dict(settings), tmp_path, seed=0, on_cpu=True) for _ in range(2)]
        data = Dataset.from_list([{"prompt": "a", "problem_id": "p"}] * 8)
        functions = {name: _function(name) for name in COMPONENTS}
        common = {"train_dataset": data, "processing_class": tokenizer}

        def wrapped():
            policy = tiny_model(model, len(tokenizer))
            if "beta" in settings:  # TRL loads the reference model of a KL term from its path
                policy.save_pretrained(tmp_path / "reference")
                policy.config._name_or_path = str(tmp_path / "reference")
            return {"model": policy, "peft_config": lora_config(lora)}

        ours = AblationTrainer(
            components=functions,
            weights=WEIGHTS,
            date="2024-07-26",
            placements=placements or dict.fromkeys(COMPONENTS, "all_tokens"),
            sink=PartWriter(tmp_path / "parts", 0),
            measure_every=measure_every,
            whole_at=whole_at,
            by_completion=by_completion,
            args=args[0],
            **wrapped(),
            **common,
        )
        plain = PlainTrainer(reward_funcs=[functions["correctness"]], args=args[1], **wrapped(), **common)
        for trainer in (ours, plain):
            trainer.model.train()
            trainer.model.double()
            trainer.aux_loss_enabled = False  # the reference has none
            trainer.current_gradient_accumulation_steps = settings.get("gradient_accumulation_steps", 1)
        _same_weights(ours.model, plain.model)
        if settings.get("gradient_checkpointing"):
            ours.model.gradient_checkpointing_enable(settings["gradient_checkpointing_kwargs"])
        return Pair(ours, plain)

    return make


def _function(name: str):
    score = lambda completions, **columns: [0.0] * len(completions)  # noqa: E731
    score.__name__ = name
    return score


def _same_weights(ours: nn.Module, plain: nn.Module) -> None:
    """Give adapters, which start at zero, weights of their own; the two models the same."""
    torch.manual_seed(7)
    with torch.no_grad():
        for (name, first), (other, second) in zip(ours.named_parameters(), plain.named_parameters(), strict=True):
            assert name == other
            if "lora_" in name:
                first += 0.3 * torch.randn_like(first)
                second.copy_(first)
            assert torch.equal(first, second)
