"""An estimate of the GPU memory that a study's runs will take, compared with the GPU's memory where that is known."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from reward_ablation.cluster.site import Site
from reward_ablation.config.batch_sizes import BatchSizes
from reward_ablation.config.grpo_settings import COMPLETION_LENGTH
from reward_ablation.config.sections.gpu_number import share_text
from reward_ablation.start import memory_terms as terms
from reward_ablation.start.memory_terms import MemorySettings, Shape
from reward_ablation.start.reward_model_memory import reward_model_bytes, reward_model_lines
from reward_ablation.study.study import Run as StudyRun
from reward_ablation.study.study import Study
from reward_ablation.system.strict_text import load_json

GIB = 2**30
#: Assumed, not measured: bytes that CUDA, its libraries and NCCL take; the share that torch's allocator cannot use; and
#: bytes that vLLM's engine needs besides weights and cache.
CUDA_BYTES, SLACK, ENGINE_BYTES = 1.5 * GIB, 0.1, 1.5 * GIB
#: GiB of GPUs that come in one size. A size in the name, such as `a100-80gb`, wins over this table.
CARDS = {"t4": 15, "l4": 22, "a10": 22, "a10g": 22, "a40": 44, "l40": 44, "l40s": 44, "h200": 140, "b200": 179}
#: How many arms a line names.
ARMS = 5


def peak(shape: Shape, run: MemorySettings, card: float = 0) -> float:
    """Most bytes that a training process takes of a GPU, including those of CUDA and those lost to the allocator.

    `card` is the GPU's memory in bytes, 0 where not known. A colocated vLLM takes its share of the GPU, and at least
    its weights in bfloat16.
    """
    engine = 0.0
    if run.vllm == "colocate":
        engine = max(card * run.vllm_memory, 2 * shape.parameters + ENGINE_BYTES)
    generation, training = phases(shape, run)
    awake = max(generation, training) if not run.vllm_sleep else generation
    asleep = training if run.vllm_sleep else 0
    return max(awake * (1 + SLACK) + engine, asleep * (1 + SLACK)) + CUDA_BYTES


def phases(shape: Shape, run: MemorySettings) -> tuple[float, float]:
    """Bytes that tensors take during generation, and during training (the larger of backward pass and update)."""
    held = terms.weights(shape, run) + terms.master_weights(shape, run) + terms.optimiser(shape, run)
    if run.reference and not run.lora:  # a copy of the initial model; with LoRA the adapters are switched off instead
        held += terms.weights(shape, run)
    held += 0 if run.zero else terms.communication(shape, run)
    training = terms.gradients(shape, run) + (terms.communication(shape, run) if run.zero else 0)
    backward = terms.activations(shape, run) + terms.head(shape, run) + terms.second_embedding(shape, run)
    backward += terms.measurement(shape, run)
    if run.strategy == "zero3":  # weights that ZeRO-3 gathers for the forward or backward pass
        backward += min(shape.parameters, terms.LIVE) * run.weight_bytes
    update = terms.master_weights(shape, run)  # float32 gradients of the master weights
    return held + terms.generation(shape, run), held + training + max(backward, update)


def read_shape(config_file: Path) -> Shape | None:
    """The shape by a model's config.json; None without a file, or for a model that is not a dense Qwen2 or Llama."""
    try:
        config: dict[str, Any] = load_json(config_file.read_bytes())
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
    except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError, RecursionError):
        return None


def shape_of(study: Study) -> Shape | None:
    """The shape of a study's model, fetched or in a local folder; None before a hub model is fetched."""
    shape = read_shape((study.root / study.config.root / study.fetched_file).with_name("config.json"))
    if shape is None and study.config.model.source == "local":
        shape = read_shape(study.root / study.config.model.path / "config.json")
    return shape


def memory_settings(run: StudyRun) -> MemorySettings:
    """The settings that decide a run's memory, with TRL's defaults. Prompts are assumed to have 256 tokens."""
    spec, launch, vllm = run.arm_spec, run.launch, run.launch.vllm
    training = spec.training
    sizes = BatchSizes.of(training, launch.process_count)
    return MemorySettings(
        micro_batch=sizes.micro_batch,
        micro_batches=max(sizes.accumulation, sizes.generated),
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
    """GiB of a GPU by Slurm's name for its type; None where the name does not say."""
    if sizes := re.findall(r"(\d+)gb?\b", re.sub("_", " ", name.lower())):
        return float(sizes[-1])
    return next((float(CARDS[word]) for word in re.split(r"[-_ ]", name.lower()) if word in CARDS), None)


def smallest_card_here() -> float | None:
    """GiB of this machine's smallest GPU; None where nvidia-smi does not say, or where MIG divides a GPU."""
    command = ["nvidia-smi", "--query-gpu=memory.total,mig.mode.current", "--format=csv,noheader,nounits"]
    try:
        rows = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.splitlines()
        return None if "Enabled" in "".join(rows) else min(float(row.split(",")[0]) for row in rows) / 1024
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def memory_lines(study: Study, runs: Iterable[StudyRun], here: bool, site: Site | None) -> list[str]:
    """Lines on the GPU memory of runs: for each amount the arms that take it, then a line for each reward model.

    A line is a warning if the GPU, or the run's share of it, has less memory.

    Parameters
    ----------
    study : Study
        The study.
    runs : iterable of Run
        The runs to train.
    here : bool
        Whether they are trained on this machine.
    site : Site, optional
        The cluster that they are trained on.
    """
    arms = {run.arm: run for run in runs if run.launch.gpus}
    shape = shape_of(study) if arms else None
    if shape is None:
        return ["GPU memory: known once the model is fetched, for models of Qwen2's or Llama's kind"] if arms else []
    on_cluster = site is not None or not here
    here_gib = None if on_cluster else smallest_card_here()
    arms_by_amount: dict[tuple[str, float | None, float], list[str]] = {}
    reward_models: dict[str, dict[str, float | None]] = {}
    for arm, run in arms.items():
        gpu_type = run.launch.resources.get("gpu_model") or (site and (site.train.gpu_type or site.gpu_type))
        card = card_by_name(str(gpu_type or "")) if on_cluster else here_gib
        reward_models[arm] = reward_model_bytes(study, run, read_shape)
        of_rewards = sum(size or 0 for size in reward_models[arm].values()) * (1 + SLACK)
        needed = (peak(shape, memory_settings(run), (card or 0) * GIB) + of_rewards) / GIB
        needed_text = f"{needed:.1f}" if needed < 99.95 else f"{needed:.0f}"
        arms_by_amount.setdefault((needed_text, card, run.launch.share), []).append(arm)
    lines = []
    for (needed_text, card, share), names in arms_by_amount.items():
        listed = ", ".join(names[:ARMS]) + (f" and {len(names) - ARMS} more" if len(names) > ARMS else "")
        of_arms = f", arm{'s' if len(names) > 1 else ''} {listed}" if len(arms_by_amount) > 1 else ""
        of_share = f", of which a run has {share_text(share)}" if share < 1 else ""
        of_card = (f", which has {card:.0f} GiB" if card else "") + of_share
        prompts = f"for prompts of {MemorySettings.prompt} tokens"
        line = f"GPU memory{of_arms}: about {needed_text} GiB on each GPU{of_card}, {prompts}"
        lines.append(f"warning: {line}" if card and float(needed_text) > card * share else line)
    return lines + reward_model_lines(reward_models.values())
