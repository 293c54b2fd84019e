"""TRL's own trainer on a model of a few parameters, for the files that TRL itself writes."""

from pathlib import Path

from datasets import Dataset
from transformers import set_seed
from trl import GRPOConfig, GRPOTrainer

from reward_ablation.models.load import load_model
from reward_ablation.sampling.tokenizer import load_tokenizer


def even_letters(completions, **columns):
    return [float(len(text) % 2 == 0) for text in completions]


def no_score_of_short(completions, log_extra=None, **columns):
    if log_extra:
        log_extra("first_letter", [text[:1] for text in completions])
    return [None if len(text) < 3 else len(text) / 10 for text in completions]


def train(model: Path, folder: Path, **settings) -> GRPOTrainer:
    """Train with `log_completions` and two rewards, 1 * even_letters + 0.5 * no_score_of_short."""
    set_seed(0)
    trainer = GRPOTrainer(
        model=load_model(model),
        processing_class=load_tokenizer(model),
        reward_funcs=[even_letters, no_score_of_short],
        train_dataset=Dataset.from_dict({"prompt": ["abc", "bcd", "cde", "def"]}),
        args=GRPOConfig(
            output_dir=str(folder),
            log_completions=True,
            reward_weights=[1.0, 0.5],
            max_steps=4,
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
