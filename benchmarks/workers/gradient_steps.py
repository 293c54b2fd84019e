"""One task of `benchmarks/gradients.py`, in a process of its own with one thread: builds trainers and times them.

python benchmarks/workers/gradient_steps.py steps|whole|memory-VARIANT --size JSON --demo FOLDER --json FILE
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import psutil
import pyarrow.parquet as pq
import torch
import yaml
from datasets import Dataset
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.utils import logging
from trl import GRPOTrainer
from trl.trainer.utils import split_tensor_dict

from reward_ablation.data.problems import PrepareSpec, prepare
from reward_ablation.models.load import load_model
from reward_ablation.rewards.load import load_component
from reward_ablation.sampling.prompts import DATE
from reward_ablation.sampling.tokenizer import load_tokenizer
from reward_ablation.training.around.parts import PartWriter
from reward_ablation.training.core.settings import grpo_config
from reward_ablation.training.core.trainer import AblationTrainer

ROOT = Path(__file__).parents[2]
#: Numbers of components whose gradients are measured: the trained ones, and these with 27 more that are only tracked.
FEW, MANY = 3, 30
#: Completions of one prompt.
GROUP = 8
#: A size with at most so many turns is costly.
COSTLY = 3
#: Variants of the training step that a costly size runs only once.
ONCE = ("passes", "backwards")
#: SmolLM2-135M, the wide model, Qwen2.5-0.5B and -1.5B: model type, hidden size, layers, heads, key-value heads,
#: intermediate size, words.
SHAPES = {
    "smollm2": ("llama", 576, 30, 9, 3, 1536, 49152),
    "wide": ("llama", 896, 4, 14, 2, 4864, 32000),
    "qwen-0.5b": ("qwen2", 896, 24, 14, 2, 4864, 151936),
    "qwen-1.5b": ("qwen2", 1536, 28, 12, 2, 8960, 151936),
}
SHAPE_KEYS = ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "intermediate_size")


def dataset(problems: Path) -> Dataset:
    """Prepared problems as TRL takes them, with the question and a line break as prompt."""
    rows = pq.read_table(problems).to_pylist()
    return Dataset.from_list([{"prompt": f"{row['question']}\n", "problem_id": row.pop("id"), **row} for row in rows])


@dataclass(frozen=True)
class Size:
    """A model, a batch, the variants that are measured, and the number of turns."""

    shape: str
    completions: int
    prompt: int  # tokens; 0 for the demo, whose prompts are its word problems
    completion: int
    turns: int
    variants: tuple[str, ...]
    whole_turns: int = 0
    micro_batches: int = 1
    device: str = "cpu"


# ---------------------------------------------------------------------- models, trainers, batches


def build_model(size: Size, demo: Path) -> Any:
    """The demo's model, or a model with random weights, which are the same at each call."""
    if size.shape == "demo":
        return load_model(demo)
    tokenizer = load_tokenizer(demo)
    model_type, *numbers, words = SHAPES[size.shape]
    settings: dict[str, Any] = dict(zip(SHAPE_KEYS, numbers, strict=True))
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id, "bos_token_id": None}
    config = AutoConfig.for_model(model_type, **settings, vocab_size=words, tie_word_embeddings=True, **ends)
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32)


def noise(seed: int) -> Callable[..., list[float]]:
    """A component that costs nothing to score."""

    def component(completions: list, completion_ids: list[list[int]], **columns: Any) -> list[float]:
        return [Random(f"{seed} {ids[:8]}").random() for ids in completion_ids]

    return component


def build_components(size: Size, count: int) -> dict[str, Callable]:
    """Components: those of the demo for the demo's model, and noise up to `count`."""
    made: dict[str, Callable] = {}
    if size.shape == "demo":
        for name, spec in yaml.safe_load((ROOT / "config" / "demo.yaml").read_text())["components"].items():
            made[name] = load_component(spec["function"], spec["parameters"], ROOT)
    made.update({f"noise{k}": noise(k) for k in range(len(made), count)})
    for name, component in made.items():
        component.__name__ = name
    return made


class Bench:
    """Trainers of one size on one batch.

    Parameters
    ----------
    size : Size
        Model, batch and turns.
    demo : Path
        Folder of the demo's model and tokenizer.
    folder : Path
        Output folder of the trainers.
    """

    def __init__(self, size: Size, demo: Path, folder: Path):
        self.size, self.demo, self.folder = size, demo, folder
        source = {"source": "word_problems", "count": size.completions // GROUP, "split": "train"}
        spec = PrepareSpec.model_validate({"source": source, "duplicates": "refuse", "overlap": "refuse"})
        prepare(spec, "train", folder / "problems.parquet")
        self.dataset = dataset(folder / "problems.parquet")
        self.rows = [row for row in self.dataset for _ in range(GROUP)]
        self.recorded: dict[str, Any] = {}

    def trainer(self, name: str, components: int, trained: int, measure_every: int | None) -> Any:
        """A trainer that is ready for a step: TRL's own if `measure_every` is None."""
        settings = {
            "per_device_train_batch_size": self.size.completions // self.size.micro_batches,
            "gradient_accumulation_steps": self.size.micro_batches,
            "num_generations": GROUP,
            "max_completion_length": self.size.completion,
            "max_steps": 1,
            "save_strategy": "no",
        }
        common: dict[str, Any] = {
            "model": build_model(self.size, self.demo),
            "args": grpo_config(settings, self.folder / name, seed=0, on_cpu=self.size.device == "cpu"),
            "train_dataset": self.dataset,
            "processing_class": load_tokenizer(self.demo),
        }
        made = build_components(self.size, components)
        if measure_every is None:
            trainer = GRPOTrainer(reward_funcs=list(made.values())[:trained], **common)
        else:
            trainer = AblationTrainer(
                components=made,
                weights={component: float(number < trained) for number, component in enumerate(made)},
                placements=dict.fromkeys(made, "all_tokens"),
                date=DATE,
                sink=PartWriter(self.folder / name, 0),
                measure_every=measure_every,
                **common,
            )
        trainer.current_gradient_accumulation_steps = self.size.micro_batches  # `train` would set it
        trainer.model_wrapped = trainer.accelerator.prepare(trainer.model)
        trainer.model.train()
        return trainer

    def record(self, trainer: Any) -> None:
        """Fix the token ids of prompts and completions: sampled by the demo's model, random for other models."""
        if self.size.shape == "demo":
            torch.manual_seed(0)
            batch = trainer._generate_and_score_completions(self.rows)
            for part in ("prompt", "completion"):
                pairs = zip(batch[f"{part}_ids"], batch[f"{part}_mask"].bool(), strict=True)
                self.recorded[f"{part}_ids"] = [ids[mask].tolist() for ids, mask in pairs]
            return
        rng, words = Random(0), SHAPES[self.size.shape][-1]

        def tokens(count: int) -> list[int]:
            return [rng.randrange(3, words) for _ in range(count)]

        groups = range(self.size.completions // GROUP)
        prompts = [tokens(self.size.prompt - self.size.prompt // 4 * group // len(groups)) for group in groups]
        lengths = [self.size.completion * (GROUP + rank) // (2 * GROUP - 1) for rank in range(GROUP)]
        self.recorded["prompt_ids"] = [ids for ids in prompts for _ in range(GROUP)]
        self.recorded["completion_ids"] = [tokens(length) for _ in groups for length in lengths]

    def score(self, trainer: Any) -> list[dict[str, Any]]:
        """Score the recorded completions in place of generated ones. Returns the micro-batches of the training step."""
        trainer.rollout_func = lambda prompts, trainer: {**self.recorded, "logprobs": None}
        try:
            return split_tensor_dict(trainer._generate_and_score_completions(self.rows), self.size.micro_batches)
        finally:
            trainer.rollout_func = None


def first_completions(batch: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A micro-batch of the first two completions of a batch."""
    return [{key: part if getattr(part, "ndim", 0) == 0 else part[:2] for key, part in batch[0].items()}]


# ---------------------------------------------------------------------- what is timed


def seconds(call: Callable[[], Any]) -> float:
    """Seconds of a call: CPU time of this process, or wall time if a GPU does the work."""
    if not torch.cuda.is_initialized():
        start = time.process_time()
        call()
        return time.process_time() - start
    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def step(trainer: Any, batch: list[dict[str, Any]], keep: bool = False) -> None:
    """TRL's training step on scored micro-batches."""
    trainer._prepare_inputs = lambda inputs: inputs
    for number, part in enumerate(batch, start=1):
        trainer.accelerator.gradient_state._set_sync_gradients(number == len(batch))
        trainer.training_step(trainer.model_wrapped, part, None)
    del trainer._prepare_inputs
    if not keep:
        trainer.model.zero_grad(set_to_none=True)


def generate_and_step(trainer: Any, rows: list[dict[str, Any]]) -> None:
    """TRL's training step on rows of the data set, with generation. All trainers sample the same completions."""
    torch.manual_seed(0)
    trainer.training_step(trainer.model_wrapped, rows, None)
    trainer.model.zero_grad(set_to_none=True)


def naive(trainer: Any, batch: dict[str, Any], one_forward: bool) -> list[list[float]]:
    """Inner products of K gradients of TRL's own loss with K advantages in turn. All gradients are kept.

    Each gradient has a forward pass of its own, as in public code, or all share one.
    """
    advantages = torch.randn(FEW, len(batch["advantages"]), generator=torch.Generator().manual_seed(0))
    parameters = list(trainer.model.parameters())
    compute, forward = trainer._get_per_token_logps_and_entropies, []

    def once(*args: Any, **kwargs: Any) -> Any:
        if not forward:
            forward.append(compute(*args, **kwargs))
        return forward[0]

    if one_forward:
        trainer._get_per_token_logps_and_entropies = once
    gradients = []
    for k, of_component in enumerate(advantages.to(batch["advantages"].device)):
        loss = trainer.compute_loss(trainer.model_wrapped, {**batch, "advantages": of_component})
        gradients.append(torch.autograd.grad(loss, parameters, retain_graph=one_forward and k < FEW - 1))
    trainer.__dict__.pop("_get_per_token_logps_and_entropies", None)
    return [[dot(first, second) for second in gradients] for first in gradients]


def dot(first: tuple[torch.Tensor, ...], second: tuple[torch.Tensor, ...]) -> float:
    return sum(torch.dot(a.flatten(), b.flatten()).item() for a, b in zip(first, second, strict=True))


def in_turns(calls: dict[str, Callable[[], Any]], turns: int) -> list[dict[str, float]]:
    """Seconds of each call by turn, in an order that changes by turn. The first turn of a cheap size is dropped."""
    measured: list[dict[str, float]] = []
    names, spare = list(calls), int(turns > COSTLY)
    for turn in range(turns + spare):
        order = names[turn % len(names) :] + names[: turn % len(names)]
        wanted = [name for name in order if turn == 0 or turns > COSTLY or name not in ONCE]
        measured.append({name: seconds(calls[name]) for name in wanted})
        shown = ", ".join(f"{name} {measured[-1][name]:.3g}" for name in names if name in measured[-1])
        print(f"  turn {turn + 1 - spare} of {turns}: seconds: {shown}", file=sys.stderr, flush=True)
    return measured[spare:]


# ---------------------------------------------------------------------- tasks


def steps(bench: Bench, turns: int) -> dict[str, Any]:
    """Ratios and seconds of training steps and of the naive ways."""
    settings = {"bare": (FEW, None), "off": (FEW, 0), "on": (FEW, 1), "many": (MANY, 1)}
    trainers = {
        name: bench.trainer(name, count, FEW, every)
        for name, (count, every) in settings.items()
        if name in bench.size.variants
    }
    bench.record(trainers["bare"])
    batches = {name: bench.score(trainer) for name, trainer in trainers.items()}
    calls: dict[str, Callable[[], Any]] = {}
    for name, trainer in trainers.items():
        step(trainer, first_completions(batches[name]))  # work that is done once
        calls[name] = partial(step, trainer, batches[name])
    calls["passes"] = partial(naive, trainers["bare"], batches["bare"][0], one_forward=False)
    calls["backwards"] = partial(naive, trainers["bare"], batches["bare"][0], one_forward=True)
    measured = in_turns({name: call for name, call in calls.items() if name in bench.size.variants}, turns)

    ratios = {name: [turn[name] / turn["bare"] for turn in measured if name in turn] for name in calls}
    ratios["passes"] = [1 + ratio for ratio in ratios["passes"]]
    ratios["on/off"] = [turn["on"] / turn["off"] for turn in measured if "off" in turn]
    ratios["many/few"] = [turn["many"] / turn["on"] for turn in measured if "many" in turn]
    return {
        **spreads(ratios),
        "turns": measured,
        "seconds": statistics.median(turn["bare"] for turn in measured),
        "difference": difference(trainers["bare"], trainers["on"], batches),
    }


def difference(bare: Any, on: Any, batches: dict[str, list]) -> float:
    """Relative difference between the gradients of the two trainers. It shows that both do the same work."""
    step(bare, first_completions(batches["bare"]), keep=True)
    step(on, first_completions(batches["on"]), keep=True)
    pairs = [(a.grad, b.grad) for a, b in zip(bare.model.parameters(), on.model.parameters(), strict=True)]
    squares = sum((a - b).square().sum() for a, b in pairs) / sum(a.square().sum() for a, _ in pairs)
    return torch.as_tensor(squares).sqrt().item()


def whole(bench: Bench, turns: int) -> dict[str, Any]:
    """Ratios of whole steps. TRL gets one component, and this trainer also tracks the others."""
    trainers = {"bare": bench.trainer("bare", FEW, 1, None), "on": bench.trainer("on", FEW, 1, 1)}
    bench.record(trainers["bare"])

    def score(trainer: Any) -> None:
        for _ in range(10):
            bench.score(trainer)

    calls = {name: partial(generate_and_step, trainer, bench.rows) for name, trainer in trainers.items()}
    calls.update({f"{name}_scores": partial(score, trainer) for name, trainer in trainers.items()})
    score(trainers["bare"])
    score(trainers["on"])
    measured = in_turns(calls, turns)
    ratios = {
        "on": [turn["on"] / turn["bare"] for turn in measured],
        "tracking": [1 + (turn["on_scores"] - turn["bare_scores"]) / 10 / turn["bare"] for turn in measured],
    }
    return {**spreads(ratios), "turns": measured, "seconds": statistics.median(turn["bare"] for turn in measured)}


def memory(bench: Bench, turns: int, variant: str) -> dict[str, float]:
    """Peak memory (MB) of a process that does one step, or three of a cheap size, and its memory before."""
    trainer = bench.trainer(variant, FEW, FEW, 1 if variant == "on" else None)
    bench.record(trainer)
    batch = bench.score(trainer)
    step(trainer, first_completions(batch))
    on_gpu = bench.size.device == "cuda"
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated() if on_gpu else psutil.Process().memory_info().rss
    for _ in range(1 if turns <= COSTLY else 3):
        taken = seconds(partial(step, trainer, batch, keep=True))
        if variant == "passes":
            naive(trainer, batch[0], one_forward=False)
        trainer.model.zero_grad(set_to_none=True)
    peak = torch.cuda.max_memory_allocated() if on_gpu else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"before_mb": before / 2**20, "peak_mb": peak / 2**20, "seconds": taken}


def spreads(ratios: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    """Median, range and number of values of each list that is not empty."""
    return {
        name: {
            "median": statistics.median(values),
            "lowest": min(values),
            "highest": max(values),
            "turns": len(values),
        }
        for name, values in ratios.items()
        if values
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", help="steps, whole, or memory- and a variant")
    parser.add_argument("--size", type=json.loads, required=True, help="fields of a `Size`")
    parser.add_argument("--demo", type=Path, required=True, help="folder of the demo's model")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    arguments = parser.parse_args()
    size = Size(**arguments.size)
    warnings.simplefilter("ignore")
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(size, arguments.demo, Path(folder))
        if arguments.task.startswith("memory-"):
            result = memory(bench, size.turns, arguments.task.removeprefix("memory-"))
        elif arguments.task == "whole":
            result = whole(bench, size.whole_turns)
        else:
            result = steps(bench, size.turns)
    arguments.json.write_text(json.dumps(result))


if __name__ == "__main__":
    main()
