"""GPU memory that the runs of a study will take, by estimate, beside the memory of the GPU where that is known."""

from __future__ import annotations

import json
import math
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from reward_ablation.cluster.site import Site
from reward_ablation.config.grpo_settings import COMPLETION_LENGTH
from reward_ablation.config.sections.gpu_number import share_text
from reward_ablation.start import memory_terms as terms
from reward_ablation.start.memory_terms import Run, Shape
from reward_ablation.start.reward_model_memory import reward_model_bytes, reward_model_lines
from reward_ablation.study.study import Run as StudyRun
from reward_ablation.study.study import Study

GIB = 2**30
#: Not measured: what CUDA, its libraries and NCCL take of a GPU, what torch's allocator cannot use, and what vLLM's
#: engine needs beside weights and cache.
CUDA_BYTES, SLACK, ENGINE_BYTES = 1.5 * GIB, 0.1, 1.5 * GIB
#: GiB of GPUs that come in one size. A size in the name, such as `a100-80gb`, counts before this table.
CARDS = {"t4": 15, "l4": 22, "a10": 22, "a10g": 22, "a40": 44, "l40": 44, "l40s": 44, "h200": 140, "b200": 179}
#: Arms that are named in a line.
ARMS = 5


def peak(shape: Shape, run: Run, card: float = 0) -> float:
    """Bytes that a training process holds at most, what CUDA takes and the allocator cannot use included.

    `card`: bytes of the GPU, 0 where not known. A colocated vLLM takes a share of the GPU, and its weights in bfloat16.
    """
    engine = 0.0
    if run.vllm == "colocate":
        engine = max(card * run.vllm_memory, 2 * shape.parameters + ENGINE_BYTES)
    generation, training = phases(shape, run)
    awake = max(generation, training) if not run.vllm_sleep else generation
    asleep = training if run.vllm_sleep else 0
    return max(awake * (1 + SLACK) + engine, asleep * (1 + SLACK)) + CUDA_BYTES


def phases(shape: Shape, run: Run) -> tuple[float, float]:
    """Bytes that tensors take while completions are generated, and in training, where the larger phase counts."""
    held = terms.weights(shape, run) + terms.master_weights(shape, run) + terms.optimiser(shape, run)
    if run.reference and not run.lora:  # the model as it was; adapters are switched off instead
        held += terms.weights(shape, run)
    held += 0 if run.zero else terms.communication(shape, run)
    training = terms.gradients(shape, run) + (terms.communication(shape, run) if run.zero else 0)
    backward = terms.activations(shape, run) + terms.head(shape, run) + terms.second_embedding(shape, run)
    backward += terms.measurement(shape, run)
    if run.strategy == "zero3":  # weights that are gathered in the forward or backward pass
        backward += min(shape.parameters, terms.LIVE) * run.weight_bytes
    update = terms.master_weights(shape, run)  # their gradients in float32
    return held + terms.generation(shape, run), held + training + max(backward, update)


def read_shape(config_file: Path) -> Shape | None:
    """The shape of a model's config.json; None where there is no file, or no dense model of Qwen2's or Llama's kind."""
    try:
        config: dict[str, Any] = json.loads(config_file.read_bytes())
        if any("expert" in key for key in config):
            return None
        heads = config["num_attention_heads"]
        return Shape(
            hidden=config["hidden_size"],
            layers=config["num_hidden_layers"],
            heads=heads,
            kv_heads=config.get("num_key_value_heads") or heads,
            head_dim=config.get("head_dim") or config["hidden_size"] // heads,
            intermediate=config["intermediate_size"],
            vocabulary=config["vocab_size"],
            tied=config.get("tie_word_embeddings", False),
            bias=config.get("model_type") == "qwen2" or config.get("attention_bias", False),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def shape_of(study: Study) -> Shape | None:
    """The shape of a study's model: the fetched model's, else a local folder's; None before a model is fetched."""
    shape = read_shape((study.root / study.config.root / study.fetched_file).with_name("config.json"))
    if shape is None and study.config.model.source == "local":
        shape = read_shape(study.root / study.config.model.path / "config.json")
    return shape


def layout_of(run: StudyRun) -> Run:
    """What decides the memory of a study's run; defaults are TRL's. Prompts are taken to have 256 tokens."""
    spec, launch, vllm = run.arm_spec, run.launch, run.launch.vllm
    training = spec.training
    accumulation = training.get("gradient_accumulation_steps", 1)
    micro_batch = training.get("per_device_train_batch_size", 8)
    generated = training.get("steps_per_generation") or accumulation
    if batch := training.get("generation_batch_size"):
        generated = math.ceil(batch / (micro_batch * launch.process_count))
    return Run(
        micro_batch=micro_batch,
        micro_batches=max(accumulation, generated),
        completion=training.get("max_completion_length", COMPLETION_LENGTH),
        lora=spec.lora.r if spec.lora else 0,
        bf16=training.get("bf16", True) is not False,
        checkpointing=training.get("gradient_checkpointing", True),
        reference=training.get("beta", 0.0) > 0,
        components=sum(weight != 0 for weight in spec.weights.values()),
        measured=bool(spec.gradients.every),
        strategy=launch.strategy,
        processes=launch.process_count,
        vllm=vllm.mode if vllm else "",
        vllm_memory=launch.vllm_memory_percent / 100,
        vllm_sleep=bool(vllm and vllm.enable_sleep_mode),
    )


def card_by_name(name: str) -> float | None:
    """GiB of a GPU by the name that Slurm has for its kind; None where the name does not say."""
    if sizes := re.findall(r"(\d+)gb?\b", re.sub("_", " ", name.lower())):
        return float(sizes[-1])
    return next((float(CARDS[word]) for word in re.split(r"[-_ ]", name.lower()) if word in CARDS), None)


def smallest_card_here() -> float | None:
    """GiB of this machine's smallest GPU; None where nvidia-smi does not say, or MIG has divided a GPU."""
    command = ["nvidia-smi", "--query-gpu=memory.total,mig.mode.current", "--format=csv,noheader,nounits"]
    try:
        rows = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.splitlines()
        return None if "Enabled" in "".join(rows) else min(float(row.split(",")[0]) for row in rows) / 1024
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def memory_lines(study: Study, runs: Iterable[StudyRun], here: bool, site: Site | None) -> list[str]:
    """A line for each amount of GPU memory, with the arms that take it; a warning where a run's GPU or share has less.

    A line for each reward model says how much of this the model takes.

    The `runs` will be trained on this machine (`here`), or on the cluster of a `site`.
    """
    arms = {run.arm: run for run in runs if run.launch.gpus}
    shape = shape_of(study) if arms else None
    if shape is None:
        return ["GPU memory: known once the model is fetched, for models of Qwen2's or Llama's kind"] if arms else []
    on_cluster = site is not None or not here
    here_gib = None if on_cluster else smallest_card_here()
    found: dict[tuple[str, float | None, float], list[str]] = {}
    rewards: dict[str, dict[str, float | None]] = {}
    for arm, run in arms.items():
        kind = run.launch.resources.get("gpu_model") or (site and (site.train.gpu_type or site.gpu_type))
        card = card_by_name(str(kind or "")) if on_cluster else here_gib
        rewards[arm] = reward_model_bytes(study, run, read_shape)
        of_rewards = sum(size or 0 for size in rewards[arm].values()) * (1 + SLACK)
        needed = (peak(shape, layout_of(run), (card or 0) * GIB) + of_rewards) / GIB
        found.setdefault((f"{needed:.1f}" if needed < 99.95 else f"{needed:.0f}", card, run.launch.share), []).append(
            arm
        )
    lines = []
    for (needed_text, card, share), names in found.items():
        told = ", ".join(names[:ARMS]) + (f" and {len(names) - ARMS} more" if len(names) > ARMS else "")
        of_arms = f", arm{'s' if len(names) > 1 else ''} {told}" if len(found) > 1 else ""
        of_share = f", of which a run has {share_text(share)}" if share < 1 else ""
        of_card = (f", which has {card:.0f} GiB" if card else "") + of_share
        line = f"GPU memory{of_arms}: about {needed_text} GiB on each GPU{of_card}, for prompts of {Run.prompt} tokens"
        lines.append(f"warning: {line}" if card and float(needed_text) > card * share else line)
    return lines + reward_model_lines(rewards.values())
