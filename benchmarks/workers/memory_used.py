"""Memory of a training process in bytes, by kind, to check the estimates of `reward_ablation.start.memory`.

As a script, in one process or in several that a launcher starts:
python benchmarks/workers/memory_used.py --shape JSON --layout JSON --json FILE
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import torch
from datasets import Dataset
from peft import LoraConfig
from torch import Tensor
from transformers import GenerationConfig, Qwen2Config, Qwen2ForCausalLM
from transformers.utils import logging
from trl.trainer.utils import split_tensor_dict

from reward_ablation.data.problems import PrepareSpec, prepare
from reward_ablation.models.demo import build_tokenizer
from reward_ablation.sampling.prompts import DATE
from reward_ablation.start.memory_terms import MemorySettings, Shape
from reward_ablation.training.around.parts import PartWriter
from reward_ablation.training.core.settings import grpo_config
from reward_ablation.training.core.trainer import AblationTrainer

#: Shapes of Qwen2.5's public config.json files.
QWEN = {
    "0.5B": Shape(896, 24, 14, 2, 64, 4864, 151936),
    "1.5B": Shape(1536, 28, 12, 2, 128, 8960, 151936),
    "3B": Shape(2048, 36, 16, 2, 128, 11008, 151936),
    "7B": Shape(3584, 28, 28, 4, 128, 18944, 152064, tied=False),
}


def dataset(problems: Path) -> Dataset:
    """Prepared problems as TRL takes them, with the question and a line break as prompt."""
    rows = pq.read_table(problems).to_pylist()
    return Dataset.from_list([{"prompt": f"{row['question']}\n", "problem_id": row.pop("id"), **row} for row in rows])


def shaped_model(shape: Shape) -> Qwen2ForCausalLM:
    """A model of a shape with random weights, which are the same at each call."""
    tokenizer = build_tokenizer()
    tokens = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id, "bos_token_id": None}
    config = Qwen2Config(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        tie_word_embeddings=shape.tied,
        **tokens,
    )
    torch.manual_seed(0)
    model = Qwen2ForCausalLM._from_config(config, dtype=torch.float32)
    model.generation_config = GenerationConfig(**tokens)
    return model


def noise(seed: int) -> Callable[..., list[float]]:
    """A component that costs nothing to score."""

    def component(completions: list, completion_ids: list[list[int]], **columns: Any) -> list[float]:
        return [Random(f"{seed} {ids[:8]}").random() for ids in completion_ids]

    component.__name__ = f"noise{seed}"
    return component


def build_trainer(shape: Shape, run: MemorySettings, folder: Path, steps: int = 1) -> AblationTrainer:
    """This workflow's trainer on a model of a shape. It gets random tokens of full length as completions."""
    source = {"source": "word_problems", "count": 32, "split": "train"}
    prepare(
        PrepareSpec.model_validate({"source": source, "duplicates": "refuse", "overlap": "refuse"}),
        "train",
        folder / "problems.parquet",
    )
    settings = {
        "per_device_train_batch_size": run.micro_batch,
        "gradient_accumulation_steps": run.micro_batches,
        "num_generations": run.micro_batch,
        "max_completion_length": run.completion,
        "beta": 0.04 if run.reference else 0.0,
        "bf16": run.bf16,
        "gradient_checkpointing": run.checkpointing,
        "max_steps": steps,
        "save_strategy": "no",
    }
    components = {f"noise{k}": noise(k) for k in range(run.components)}
    model: Any = shaped_model(shape)
    if run.strategy == "zero3" or run.reference:  # loaded in slices, and once more
        build_tokenizer().save_pretrained(folder / "model")
        model.save_pretrained(folder / "model")
        model = str(folder / "model")
    trainer = AblationTrainer(
        components=components,
        weights=dict.fromkeys(components, 1.0),
        placements=dict.fromkeys(components, "all_tokens"),
        date=DATE,
        sink=PartWriter(folder / "parts", 0),
        measure_every=1 if run.measured else 0,
        model=model,
        args=grpo_config(settings, folder / "work", seed=0, on_cpu=True),
        train_dataset=dataset(folder / "problems.parquet"),
        processing_class=build_tokenizer(),
        peft_config=LoraConfig(task_type="CAUSAL_LM", r=run.lora, target_modules="all-linear") if run.lora else None,
    )
    rng = Random(0)

    def given(prompts: list, trainer: Any) -> dict[str, Any]:
        def rows(length: int) -> list[list[int]]:
            # Every second row is a token shorter, because attention works differently without padding.
            return [[rng.randrange(3, shape.vocabulary) for _ in range(length - n % 2)] for n in range(len(prompts))]

        return {"prompt_ids": rows(run.prompt), "completion_ids": rows(run.completion), "logprobs": None}

    trainer.rollout_func = given
    return trainer


# ---------------------------------------------------------------------- bytes held by tensors


def held(tensors: Iterable[Tensor | None]) -> int:
    """Bytes of the storages of some tensors. Shared storages count once."""
    storages = {}
    for tensor in tensors:
        if tensor is not None:
            storage = tensor.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values())


def states(optimizer: Any) -> list[Tensor]:
    """Adam's tensors that are as large as the weights, without its counters."""
    return [part for state in optimizer.state.values() for part in state.values() if part.numel() > 1]


def after_the_step(trainer: Any, strategy: str) -> dict[str, int]:
    """Bytes of weights and optimiser of this process, after a step."""
    optimizer = trainer.model_wrapped.optimizer if strategy.startswith("zero") else trainer.optimizer
    parameters = list(trainer.model.parameters())
    if strategy == "zero3":
        parameters = [parameter.ds_tensor for parameter in parameters]
    masters: list[Tensor] = []
    if strategy == "zero2":
        masters = optimizer.single_partition_of_fp32_groups
    elif strategy == "zero3":
        masters = optimizer.fp32_partitioned_groups_flat
    inner = optimizer.optimizer if strategy.startswith("zero") else optimizer
    return {"weights": held(parameters), "master weights": held(masters), "optimiser": held(states(inner))}


def train_and_measure(shape: Shape, run: MemorySettings, folder: Path) -> dict[str, int]:
    """Bytes held after two real steps, and bytes of the gradients just before the optimiser's step."""
    from transformers import TrainerCallback

    held_bytes: dict[str, int] = {}

    class MeasureGradients(TrainerCallback):
        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            held_bytes["gradients"] = held(parameter.grad for parameter in trainer.model.parameters())

    trainer = build_trainer(shape, run, folder, steps=2)
    trainer.add_callback(MeasureGradients())
    trainer.train()
    return held_bytes | after_the_step(trainer, run.strategy)


# ---------------------------------------------------------------------- bytes allocated


def allocated(call: Callable[[], Any]) -> tuple[int, int]:
    """Peak of the bytes that a call allocates, and the bytes that it leaves allocated, by torch's profiler."""
    gc.collect()
    gc.disable()  # else memory of earlier steps would be freed during the call, and count
    try:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
            kept = call()
    finally:
        gc.enable()
    events = profile.profiler.kineto_results.events()
    changes = sorted((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]")
    now = most = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    del kept
    return most, now


def one_pass(shape: Shape, run: MemorySettings, folder: Path) -> dict[str, int]:
    """Bytes that a forward pass leaves for the backward pass, and peak bytes of the step's last micro-batch."""
    trainer = build_trainer(shape, run, folder)
    trainer.current_gradient_accumulation_steps = run.micro_batches
    trainer.model_wrapped = trainer.accelerator.prepare(trainer.model)
    if run.checkpointing:  # as `train` does
        trainer.model.gradient_checkpointing_enable(trainer.args.gradient_checkpointing_kwargs)
    trainer.model.train()
    rows = [row for row in trainer.train_dataset for _ in range(run.micro_batch)][: run.micro_batch * run.micro_batches]
    batch = split_tensor_dict(trainer._generate_and_score_completions(rows), run.micro_batches)
    trainer._prepare_inputs = lambda inputs: inputs
    trainer._measures_now = lambda: run.measured

    def forward(part: dict[str, Any]) -> Tensor:
        return trainer.compute_loss(trainer.model_wrapped, part)

    def step(part: dict[str, Any]) -> None:
        trainer.training_step(trainer.model_wrapped, part, None)

    trainer.accelerator.gradient_state._set_sync_gradients(False)
    step(batch[0])  # work that is done once
    trainer.model.zero_grad(set_to_none=True)
    kept = allocated(lambda: forward(batch[0]))[1]
    trainer._recorder.clear()
    trainer._measured = None
    if run.micro_batches > 1:
        step(batch[0])
    return {"activations": kept, "peak": allocated(lambda: step(batch[-1]))[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", type=json.loads, required=True, help="fields of a `Shape`")
    parser.add_argument("--layout", type=json.loads, required=True, help="fields of `MemorySettings`")
    parser.add_argument(
        "--json", type=Path, required=True, metavar="FILE", help="the first process writes the result here"
    )
    arguments = parser.parse_args()
    logging.set_verbosity_error()
    torch.set_num_threads(1)
    shape, run = Shape(**arguments.shape), MemorySettings(**arguments.layout)
    if run.strategy.startswith("zero"):
        import deepspeed

        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # it would be compiled first
    with tempfile.TemporaryDirectory() as folder:
        measured = train_and_measure(shape, run, Path(folder))
    if os.environ.get("RANK", "0") == "0":
        arguments.json.write_text(json.dumps({"shape": asdict(shape), "run": asdict(run), "measured": measured}))
    if run.processes > 1:
        torch.distributed.barrier()
    sys.stdout.flush()
    os._exit(0)  # DeepSpeed's processes may abort at a normal exit


if __name__ == "__main__":
    main()
