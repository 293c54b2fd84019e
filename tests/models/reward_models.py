"""Tiny sequence-classification models with random weights, and tokenizers that read any text."""

from pathlib import Path
from typing import Any

#: As of many reward models, with an end token behind each turn.
TEMPLATE = "{% for message in messages %}<{{ message.role }}>{{ message.content }}<end>{% endfor %}"


def save_reward_model(folder: Path, template: str | None = TEMPLATE, labels: int = 1, **settings: Any) -> Path:
    """Save a Llama-like classifier of some thousand parameters; `settings` are those of its config."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForSequenceClassification, PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=258, special_tokens=["<end>", "<pad>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator([], trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>", pad_token="<pad>")
    fast.chat_template = template
    fast.save_pretrained(folder)
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    numbers = {"vocab_size": 258, "max_position_embeddings": 2048, "initializer_range": 0.2, "pad_token_id": 1}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = LlamaConfig(**{**shape, **numbers, "id2label": {i: str(i) for i in range(labels)}, **settings})
        LlamaForSequenceClassification(config).save_pretrained(folder)
    return folder
