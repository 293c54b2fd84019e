"""How much GPU memory a training process takes, estimated from the model's shape and the run's layout.

    python -m reward_ablation.start.memory --shape 1.5B --strategy zero2 --processes 4
    python -m reward_ablation.start.memory --model FOLDER --lora 16 --vllm colocate --card 24
    python -m reward_ablation.start.memory --sizes

The terms are those of `memory_terms`. On a CPU they were measured (docs/launch.md); on a GPU, nothing was.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reward_ablation.start.memory_terms import (
    GIB,
    SHAPES,
    Run,
    Shape,
    activations,
    communication,
    engine_cache,
    gathered_weights,
    gradients,
    head,
    key_value_cache,
    master_weights,
    measurement,
    optimiser,
    reference_model,
    sampling,
    second_embedding,
    trained,
    weights,
    words_that_occur,
)
from reward_ablation.system.errors import StudyError, one_line_errors

#: Not measured: what CUDA, its libraries and NCCL take of a GPU, and what torch's allocator cannot use.
CUDA_BYTES, SLACK = 1.5 * GIB, 0.1
PHASES = ("generation", "backward", "update")
CARDS = (24, 48, 80)


@dataclass(frozen=True)
class Term:
    """Bytes of one kind, and the phases of a step in which they are held."""

    name: str
    bytes: float
    phases: tuple[str, ...]


def terms(shape: Shape, run: Run, card: float = 80 * GIB) -> list[Term]:
    """All that a training process holds, on a card of so many bytes; see the functions of the terms' names."""
    always, backward = PHASES, ("backward",)
    gathered = gathered_weights(shape, run)
    whole = shape.parameters * run.weight_bytes if run.strategy == "zero3" and not run.vllm else 0
    engine = card * run.vllm_memory if run.vllm == "colocate" else 0
    all_terms = [
        Term("weights", weights(shape, run), always),
        Term("master weights", master_weights(shape, run), always),
        Term("optimiser", optimiser(shape, run), always),
        Term("reference model", reference_model(shape, run), always),
        Term("gradients", gradients(shape, run), ("backward", "update")),
        Term("DDP's or ZeRO's buckets", communication(shape, run), always if not run.zero else ("backward", "update")),
        Term("gathered weights", gathered, backward),
        Term("gathered to generate", whole, ("generation",)),
        Term("activations", activations(shape, run), backward),
        Term("head", head(shape, run), backward),
        Term("embedding's second gradient", second_embedding(shape, run), backward),
        Term("measurement", measurement(shape, run) + words_that_occur(shape, run), backward),
        Term("key-value cache", key_value_cache(shape, run), ("generation",)),
        Term("sampling", sampling(shape, run), ("generation",)),
        Term("gradients in float32", 4 * trained(shape, run) / run.processes if run.zero else 0, ("update",)),
        Term("vLLM", engine, ("generation",) if run.vllm_sleep else always),
    ]
    return [term for term in all_terms if term.bytes]


def peaks(shape: Shape, run: Run, card: float = 80 * GIB) -> dict[str, float]:
    """Bytes by phase, with what CUDA takes and the allocator cannot use; vLLM's share is as large as it is told."""
    found = terms(shape, run, card)
    result = {}
    for phase in PHASES:
        own = sum(term.bytes for term in found if phase in term.phases and term.name != "vLLM")
        engine = sum(term.bytes for term in found if phase in term.phases and term.name == "vLLM")
        result[phase] = own * (1 + SLACK) + CUDA_BYTES + engine
    return result


def fits(shape: Shape, run: Run, card: float) -> bool:
    """Whether a run fits a card of so many bytes, and vLLM has a place for one completion at least."""
    if run.vllm == "colocate" and engine_cache(shape, run, card) < run.length:
        return False
    return max(peaks(shape, run, card).values()) <= card


def read_shape(folder: Path) -> Shape:
    """The shape of a model folder's config.json.

    Raises
    ------
    StudyError
        There is none, or it is not that of a dense model of Qwen2's or Llama's kind.
    """
    path = folder / "config.json"
    try:
        config: dict[str, Any] = json.loads(path.read_text())
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
    except OSError as error:
        raise StudyError(f"{path}: {error.strerror}; a model folder has one") from None
    except (ValueError, KeyError, TypeError) as error:
        raise StudyError(f"{path}: {error} is not there: no config of a dense model such as Qwen2 or Llama") from None


def gib(value: float) -> str:
    return f"{value / GIB:.1f}" if value >= 0.05 * GIB else "0.0"


def table(shape: Shape, run: Run, card: float) -> str:
    """The terms of one run as Markdown, in GiB."""
    rows = [["GiB of one GPU", *PHASES], ["---"] * (1 + len(PHASES))]
    for term in terms(shape, run, card):
        rows.append([term.name, *(gib(term.bytes) if phase in term.phases else "" for phase in PHASES)])
    totals = peaks(shape, run, card)
    rows.append([f"all, with {SLACK:.0%} that the allocator cannot use, and CUDA", *map(gib, totals.values())])
    lines = [f"| {' | '.join(row)} |" for row in rows]
    peak = max(totals.values())
    lines += ["", f"{gib(peak)} of {gib(card)} GiB: {'fits' if peak <= card else 'does not fit'}"]
    if run.vllm == "colocate":
        places = engine_cache(shape, run, card) / run.length
        lines.append(f"vLLM: place for {max(0, math.floor(places))} completions at a time")
    return "\n".join(lines)


#: Layouts of the table of sizes: strategy and number of GPUs.
LAYOUTS = (("ddp", 1), ("ddp", 4), ("zero2", 4), ("zero3", 4), ("zero3", 8))


def cards_that_fit(shape: Shape, run: Run) -> str:
    """The smallest of the usual cards that a run fits."""
    return next((f"{card}" for card in CARDS if fits(shape, run, card * GIB)), "none")


def sizes_table(run: Run | None = None) -> str:
    """GiB by model, LoRA or full, strategy and GPUs; and the smallest card for each way to make completions."""
    run = run or Run()
    labels = ["model", "trained", "strategy × GPUs", "GiB", "transformers", "colocate", "colocate, sleep", "server"]
    rows = [labels, ["---"] * len(labels)]
    ways: list[dict[str, Any]] = [
        {},
        {"vllm": "colocate"},
        {"vllm": "colocate", "vllm_sleep": True},
        {"vllm": "server"},
    ]
    for name, shape in SHAPES.items():
        for rank in (16, 0):
            for strategy, processes in LAYOUTS:
                if rank and strategy == "zero2":
                    continue  # adapters' optimisers are small: nothing to share
                layout = replace(run, lora=rank, strategy=strategy, processes=processes)
                cards = [cards_that_fit(shape, replace(layout, **way)) for way in ways]
                peak = gib(max(peaks(shape, layout).values()))
                trains = f"LoRA {rank}" if rank else "all"
                rows.append([name, trains, f"{strategy} × {processes}", peak, *cards])
    lines = [f"| {' | '.join(row)} |" for row in rows]
    batch = f"Micro-batches of {run.micro_batch} × ({run.prompt} + {run.completion}) tokens"
    lines += ["", f"{batch}, bfloat16, checkpointing; the cards are the smallest of {CARDS} GiB that fit."]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m reward_ablation.start.memory",
        description="Estimate a training process's GPU memory. Checked on a CPU; not run on a GPU.",
    )
    model = parser.add_mutually_exclusive_group(required=True)
    model.add_argument("--model", type=Path, metavar="FOLDER", help="a model folder with config.json")
    model.add_argument("--shape", choices=SHAPES, help="one of Qwen2.5's")
    model.add_argument("--sizes", action="store_true", help="all of these, by layout and card")
    parser.add_argument("--card", type=float, default=80, metavar="GIB", help="memory of a GPU (80)")
    parser.add_argument("--strategy", choices=["ddp", "zero2", "zero3"], default="ddp")
    parser.add_argument("--processes", type=int, default=1, help="GPUs of the run (1)")
    parser.add_argument("--micro-batch", type=int, default=Run.micro_batch, help="completions at a time (8)")
    parser.add_argument("--micro-batches", type=int, default=1, help="gradient_accumulation_steps (1)")
    parser.add_argument("--prompt", type=int, default=Run.prompt, help="tokens of the longest (256)")
    parser.add_argument("--completion", type=int, default=Run.completion, help="max_completion_length (1024)")
    parser.add_argument("--lora", type=int, default=0, metavar="RANK", help="of adapters; 0: train all (0)")
    parser.add_argument("--components", type=int, default=Run.components, help="that are measured; 0: none (3)")
    parser.add_argument("--reference", action="store_true", help="there is a KL term: beta is above 0")
    parser.add_argument("--no-checkpointing", action="store_true", help="gradient_checkpointing: false")
    parser.add_argument("--no-bf16", action="store_true", help="bf16: false")
    parser.add_argument("--vllm", choices=["colocate", "server"], default="", help="else transformers")
    parser.add_argument("--vllm-memory", type=float, default=Run.vllm_memory, metavar="SHARE", help="of the GPU (0.3)")
    parser.add_argument("--vllm-sleep", action="store_true", help="vLLM gives its memory back while training")
    arguments = vars(parser.parse_args())
    folder, shape, card = arguments.pop("model"), arguments.pop("shape"), arguments.pop("card") * GIB
    sizes = arguments.pop("sizes")
    arguments["checkpointing"] = not arguments.pop("no_checkpointing")
    arguments["bf16"] = not arguments.pop("no_bf16")
    run = Run(measured=bool(arguments["components"]), **arguments)
    print(sizes_table() if sizes else table(read_shape(folder) if folder else SHAPES[shape], run, card))


if __name__ == "__main__":
    with one_line_errors():
        main()
