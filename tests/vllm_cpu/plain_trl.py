"""TRL's own trainer with vLLM, none of this repository's code: python plain_trl.py MODEL PROBLEMS FOLDER SETTINGS

Writes log.json: what the trainer logged of each step.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pandas as pd
from datasets import Dataset
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

SETTINGS = {
    "use_vllm": True,
    "use_cpu": True,
    "bf16": False,
    "max_steps": 3,
    "learning_rate": 1e-2,
    "per_device_train_batch_size": 8,
    "num_generations": 4,
    "max_completion_length": 16,
    "logging_steps": 1,
    "save_strategy": "no",
    "report_to": "none",
}


def few_letters(completions: list[str], **_) -> list[float]:
    return [-completion.count("e") / (1 + len(completion)) for completion in completions]


def main(model: Path, problems: Path, folder: Path, settings: dict) -> None:
    config = GRPOConfig(output_dir=str(folder), **{**SETTINGS, **settings})
    prompts = [{"prompt": question + "\n"} for question in pd.read_parquet(problems).question]
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(model),
        processing_class=PreTrainedTokenizerFast.from_pretrained(model),
        reward_funcs=few_letters,
        args=config,
        train_dataset=Dataset.from_list(prompts),
    )
    trainer.train()
    if trainer.accelerator.is_main_process:
        (folder / "log.json").write_text(json.dumps(trainer.state.log_history))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]), json.loads(sys.argv[4]))
