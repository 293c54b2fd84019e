"""Train with a run's settings in a bare `trl.GRPOTrainer`, which `benchmarks/gpu_check.py` compares with this workflow.

python benchmarks/workers/bare_trl.py --spec JSON --model FOLDER --problems FILE --folder FOLDER [--sleep]
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import pyarrow.parquet as pq
import torch
from accelerate import PartialState
from datasets import Dataset
from trl import GRPOTrainer

from reward_ablation.rewards.load import load_component
from reward_ablation.sampling.tokenizer import load_tokenizer
from reward_ablation.spec.run import RunSpec
from reward_ablation.training.around.job import Engine
from reward_ablation.training.core.settings import grpo_config, lora_config


def dataset(problems: Path) -> Dataset:
    """Prepared problems as TRL takes them, with the question and a line break as prompt."""
    rows = pq.read_table(problems).to_pylist()
    return Dataset.from_list([{"prompt": f"{row['question']}\n", "problem_id": row.pop("id"), **row} for row in rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spec", type=RunSpec.parse, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--problems", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--sleep", action="store_true")
    arguments = parser.parse_args()
    spec = arguments.spec
    on_cpu = spec.gpus == 0
    PartialState(cpu=on_cpu)
    if on_cpu and os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true":
        import deepspeed

        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # it would be compiled first
    rewards = []
    for name, component in spec.components.items():
        rewards.append(load_component(component.function, component.parameters, Path.cwd()))
        rewards[-1].__name__ = name
    engine = Engine(sleep=arguments.sleep)
    settings = {**spec.training, **(engine.settings(spec.vllm.mode) if spec.vllm else {})}
    config = grpo_config(settings, arguments.folder, spec.seed, on_cpu, spec.vllm)
    config.reward_weights = [spec.weights[name] for name in spec.components]
    trainer = GRPOTrainer(
        model=str(arguments.model),
        args=config,
        reward_funcs=rewards,
        train_dataset=dataset(arguments.problems),
        processing_class=load_tokenizer(arguments.model),
        peft_config=lora_config(spec.lora and spec.lora.model_dump()),
    )
    trainer.train()
    if torch.distributed.is_initialized():
        torch.distributed.barrier()
    sys.stdout.flush()
    os._exit(0)  # DeepSpeed's processes may abort while they are taken down


if __name__ == "__main__":
    main()
