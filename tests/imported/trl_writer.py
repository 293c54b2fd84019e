"""TRL's own trainer on a model of a few parameters, for the files that TRL itself writes."""

from __future__ import annotations

from pathlib import Path

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, set_seed
from trl import GRPOConfig, GRPOTrainer


def even_letters(completions, **columns):
    return [float(len(text) % 2 == 0) for text in completions]


def no_score_of_short(completions, log_extra=None, **columns):
    if log_extra:
        log_extra("first_letter", [text[:1] for text in completions])
    return [None if len(text) < 3 else len(text) / 10 for text in completions]


def train(folder: Path, steps: int = 4, **settings) -> GRPOTrainer:
    """Train with `log_completions` and two rewards, 1 * even_letters + 0.5 * no_score_of_short."""
    set_seed(0)
    letters = ["<pad>", "<eos>", *"abcdefgh "]
    words = Tokenizer(models.WordLevel({letter: place for place, letter in enumerate(letters)}, unk_token="<pad>"))
    words.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>")
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = Qwen2Config(vocab_size=len(letters), num_key_value_heads=2, pad_token_id=0, eos_token_id=1, **sizes)
    trainer = GRPOTrainer(
        model=Qwen2ForCausalLM(config),
        processing_class=tokenizer,
        reward_funcs=[even_letters, no_score_of_short],
        train_dataset=Dataset.from_dict({"prompt": ["abc", "bcd", "cde", "def"]}),
        args=GRPOConfig(
            output_dir=str(folder),
            log_completions=True,
            reward_weights=[1.0, 0.5],
            max_steps=steps,
            num_generations=4,
            max_completion_length=6,
            report_to=[],
            save_strategy="no",
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            **{"logging_steps": 1, "per_device_train_batch_size": 8, **settings},
        ),
    )
    trainer.train()
    trainer.save_state()
    return trainer
