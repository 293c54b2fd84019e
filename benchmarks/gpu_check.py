"""Does each layout of a run work on this machine's GPUs, are its numbers right, and how long does a step take?

    python benchmarks/gpu_check.py --json FILE [--shape 0.5B 1.5B] [--layouts plain colocate ...] [--write]
    python benchmarks/gpu_check.py --json FILE --device cpu --shape tiny

Every run is started by `python -m reward_ablation.training`, as in the workflow, on random weights of the shape.

*Numbers*: on given completions, a model cut to a few layers takes two steps in each layout, in float32. The inner
products of the first step's gradients and the norms of the training gradient are compared with those of one process on
the CPU. *Time*: each layout takes a few steps with generation, and so does a bare `trl.GRPOTrainer` in the same
launcher. The table has seconds by part, medians without the first step. It names each layout that cannot run here, with
the reason.

Without a GPU nothing is run, and docs/gpu.md stays as it is. With `--write`, as in `make gpu-check`, the table replaces
the one in docs/gpu.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, replace
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import torch
from run_all import replace as replace_in
from workers import gpu_report
from workers.gpu_report import by_part, check_deepspeed, right, table
from workers.shaped_models import QWEN, Shape, shaped_model

from reward_ablation.config.sections.model import LocalModel
from reward_ablation.data.problems import PrepareSpec, prepare
from reward_ablation.models.demo import build_tokenizer
from reward_ablation.models.fetch import fetch
from reward_ablation.spec.run import RunSpec
from reward_ablation.study.core_digest import training_digest
from reward_ablation.training.around.launch.launcher import accelerate_options

DOCUMENT = gpu_report.DOCUMENT.name
WORKERS = Path(__file__).parent / "workers"
#: Folder in which `make test` installs DeepSpeed, apart from the environment's own packages.
DEEPSPEED = Path(sys.prefix) / "deepspeed"
SHAPES = {**QWEN, "tiny": Shape(64, 2, 4, 2, 16, 160, 1024)}
#: Steps of a timed run. The first step is left out of the medians.
STEPS = 4
GROUP = 4
#: Layers of the model whose numbers are compared.
CUT = 2
#: Seconds for one run.
LIMIT = 900


@dataclass(frozen=True)
class Layout:
    """How a run is laid out."""

    name: str
    processes: int = 1
    strategy: str = "ddp"
    vllm: str = ""
    sleep: bool = False
    lora: bool = False

    @property
    def gpus(self) -> int:
        """Number of GPUs that the layout needs, including the server's."""
        return self.processes + (self.vllm == "server")


LAYOUTS = [
    Layout("plain"),
    Layout("LoRA", lora=True),
    Layout("colocate", vllm="colocate"),
    Layout("colocate, sleep", vllm="colocate", sleep=True),
    Layout("LoRA, colocate", vllm="colocate", lora=True),
    Layout("server", vllm="server"),
    Layout("DDP × 2", 2),
    Layout("ZeRO-2 × 2", 2, "zero2"),
    Layout("ZeRO-3 × 2", 2, "zero3"),
]


def has_deepspeed() -> bool:
    return find_spec("deepspeed") is not None or DEEPSPEED.is_dir()


def left_out(layout: Layout, gpus: int, device: str) -> str | None:
    """The reason why a layout cannot run here; None if it can."""
    if layout.strategy.startswith("zero") and not has_deepspeed():
        return "DeepSpeed is not installed"
    if layout.vllm and device == "cpu":
        return "vLLM needs a GPU"
    if layout.vllm and find_spec("vllm") is None:
        return "vLLM is not installed"
    if device == "cuda" and layout.gpus > gpus:
        return f"needs {layout.gpus} GPUs, here are {gpus}"
    return None


# ---------------------------------------------------------------------- models, problems, specs


def make_model(shape: Shape, folder: Path) -> Path:
    """A model with random weights and the demo's tokenizer, in a folder as the workflow fetches models."""
    raw = folder.with_name(f"{folder.name}-raw")
    shaped_model(shape).save_pretrained(raw)
    build_tokenizer().save_pretrained(raw)
    fetch(LocalModel(source="local", path=str(raw)), folder / "model.json")
    return folder


def make_problems(path: Path) -> Path:
    source = {"source": "word_problems", "count": 32, "split": "train"}
    prepare(
        PrepareSpec.model_validate({"source": source, "duplicates": "refuse", "overlap": "refuse"}),
        "train",
        path,
    )
    return path


def spec_of(layout: Layout, device: str, completion: int, batch: int, **training: Any) -> RunSpec:
    """The spec of a run.

    Parameters
    ----------
    batch : int
        Completions of a step, over all processes.
    """
    rewards = WORKERS / "watched_run.py"
    components = {
        name: {"function": f"{rewards}:{name}", "parameters": {}, "placement": "all_tokens"}
        for name in ("early", "even", "length")
    }
    settings = {
        "max_steps": STEPS,
        "per_device_train_batch_size": batch // layout.processes,
        "num_generations": GROUP,
        "max_completion_length": completion,
        "learning_rate": 1e-6,
        "save_strategy": "no",
        **({"vllm_max_model_length": 256 + completion} if layout.vllm else {}),
        **training,
    }
    vllm = layout.vllm and {"mode": layout.vllm, "tensor_parallel_size": 1, "gpus": int(layout.vllm == "server")}
    source = {"source": "word_problems", "limit": None, "count": 32, "seed": 0, "split": "train", "content": "unused"}
    spec = {
        "model": {"source": "local", "content": "unused"},
        "data": {"source": source, "duplicates": "refuse", "overlap": "refuse"},
        "components": components,
        "weights": {"early": 1, "even": 0.5, "length": 0.3},
        "training": settings,
        "prompt": {"system": None, "template": "{question}\n", "chat": False},
        "lora": {"r": 16, "lora_alpha": 32, "lora_dropout": 0, "target_modules": "all-linear"} if layout.lora else None,
        "gradients": {"every": 1, "whole": []},
        "gpus": layout.processes if device == "cuda" else 0,
        "processes": layout.processes if device == "cpu" else 1,
        "strategy": layout.strategy,
        "vllm": vllm or None,
        "seed": 0,
    }
    return RunSpec.read(spec)


def given_completions(model: Path, problems: Path, vocabulary: int, tokens: int) -> dict[str, list[list[int]]]:
    """Random completions of several lengths for every problem. The keys are the tokens of the prompts, as text."""
    tokenizer, rng = build_tokenizer(), Random(0)
    completions = {}
    for question in pd.read_parquet(problems).question:
        lengths = [tokens - tokens // 2 * rank // GROUP for rank in range(GROUP)]
        rows = [[rng.randrange(3, vocabulary) for _ in range(length)] for length in lengths]
        completions[str(tokenizer(question + "\n")["input_ids"])] = rows
    return completions


# ---------------------------------------------------------------------- runs


def environment(layout: Layout, **more: str) -> dict[str, str]:
    """Environment of a run: one thread per process, and the path of DeepSpeed if it is installed apart."""
    settings = {**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"), **more}
    packages = [str(DEEPSPEED)] if layout.strategy.startswith("zero") and find_spec("deepspeed") is None else []
    paths = [*packages, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**settings, "PYTHONPATH": os.pathsep.join(paths)} if paths else settings


def execute(command: list[str], environment: dict[str, str]) -> None:
    """Run a command.

    Raises
    ------
    RuntimeError
        If the command fails: its last line that names an error, else its last line on stderr.
    """
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT)
    if result.returncode:
        lines = [line for line in result.stderr.splitlines() if line.strip()] or ["no message"]
        messages = [line for line in lines if line.startswith("error:") or "Error: " in line]
        raise RuntimeError((messages or lines)[-1].strip()[:300])


def train(spec: RunSpec, layout: Layout, model: Path, problems: Path, run: Path, **more: str) -> Path:
    """Train a run by the workflow's training command. Returns the run's folder."""
    command = [sys.executable, "-m", "reward_ablation.training", "--spec", spec.text]
    command += ["--code", training_digest(spec.functions)]
    command += ["--model", str(model), "--problems", str(problems), "--run-dir", str(run)]
    if layout.vllm:
        share = "90" if layout.vllm == "server" else "30"
        command += ["--vllm-memory-percent", share, "--vllm-sleep", str(int(layout.sleep))]
    execute(command, environment(layout, **more))
    return run


def train_bare(spec: RunSpec, layout: Layout, model: Path, problems: Path, folder: Path, **more: str) -> None:
    """Train with the same settings by TRL alone, through the same launcher."""
    script = [str(WORKERS / "bare_trl.py"), "--spec", spec.text, "--model", str(model)]
    script += ["--problems", str(problems), "--folder", str(folder), *(["--sleep"] if layout.sleep else [])]
    command = [sys.executable]
    if layout.processes > 1:
        options = accelerate_options(layout.processes, 1, 0, layout.strategy)
        command += ["-m", "accelerate.commands.launch", *options]
        if spec.gpus == 0 and layout.strategy == "ddp":
            more = {**more, "ACCELERATE_USE_CPU": "true"}
    elif spec.gpus:
        more = {**more, "CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]}
    execute([*command, *script], environment(layout, **more))


# ---------------------------------------------------------------------- numbers


def inner_products(run: Path) -> pd.DataFrame:
    """Rows of the first step in gradients.parquet."""
    rows = pd.read_parquet(run / "gradients.parquet").query("step == 1")
    return rows.set_index(["layer", "definition", "component_a", "component_b"]).sort_index()


def differences(run: Path, reference: Path) -> dict[str, float]:
    """Largest relative differences between a run's numbers and the reference's."""
    first, second = inner_products(reference), inner_products(run)
    if list(first.index) != list(second.index):
        raise RuntimeError("gradients.parquet has other rows than on the CPU")
    scale = first.norm_a * first.norm_b
    products = ((first["dot"] - second["dot"]).abs()[scale > 0] / scale[scale > 0]).max()
    norms = [pd.read_parquet(folder / "metrics.parquet").grad_norm.iloc[0] for folder in (reference, run)]
    return {"products": float(products), "norm": abs(norms[1] / norms[0] - 1)}


def numbers(layouts: list[Layout], shape: Shape, device: str, folder: Path) -> dict[str, Any]:
    """Differences of each layout to one process on the CPU, on given completions."""
    cut = replace(shape, layers=min(CUT, shape.layers))
    model, problems = make_model(cut, folder / "cut"), make_problems(folder / "problems.parquet")
    given = folder / "given.json"
    given.write_text(json.dumps(given_completions(model, problems, cut.vocabulary, 32)))
    # No clipping, so that the norm is the gradient's own. SGD, because Adam amplifies gradients near zero.
    exact = {"bf16": False, "max_steps": 2, "optim": "sgd", "max_grad_norm": 1e9}
    by_layout: dict[str, Any] = {}
    references: dict[bool, Path] = {}
    for layout in layouts:
        if layout.vllm:  # with given completions, training is the same as in the layout without vLLM
            continue
        if layout.lora not in references:
            cpu = Layout("reference", lora=layout.lora)
            spec = spec_of(cpu, "cpu", 32, 2 * GROUP, **exact)
            run = folder / f"reference-{layout.lora}" / "seed0"
            references[layout.lora] = train(spec, cpu, model, problems, run, GPU_CHECK_GIVEN=str(given))
        spec = spec_of(layout, device, 32, 2 * GROUP, **exact)
        run = folder / f"numbers-{layout.name.replace(' ', '')}" / "seed0"
        print(f"numbers: {layout.name}", file=sys.stderr, flush=True)
        try:
            train(spec, layout, model, problems, run, GPU_CHECK_GIVEN=str(given))
            by_layout[layout.name] = differences(run, references[layout.lora]) | {"processes": layout.processes}
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            by_layout[layout.name] = {"error": str(error)}
    return by_layout


# ---------------------------------------------------------------------- time


def timed(layout: Layout, shape: Shape, device: str, model: Path, problems: Path, folder: Path) -> dict:
    """Seconds of a layout's steps by part, its memory, and seconds of TRL's steps."""
    completion, batch = (256, 16) if device == "cuda" else (16, 2 * GROUP)
    spec = spec_of(layout, device, completion, batch)
    name = layout.name.replace(" ", "")
    clock = folder / f"{name}.times"
    run = train(spec, layout, model, problems, folder / name / "seed0", GPU_CHECK_TIMES=str(clock))
    if layout.strategy.startswith("zero"):
        check_deepspeed(clock)
    measured: dict[str, Any] = {"own": by_part(clock)}
    metrics = pd.read_parquet(run / "metrics.parquet")
    for column in metrics.filter(like="sampling_logp_difference"):
        measured[column.rpartition("/")[2]] = float(metrics[column].mean())
    if layout.vllm != "server":
        clock = folder / f"{name}-bare.times"
        train_bare(spec, layout, model, problems, folder / f"{name}-bare", GPU_CHECK_TIMES=str(clock))
        measured["bare"] = by_part(clock)
    return measured


def times(layouts: list[Layout], shape: Shape, device: str, folder: Path) -> dict[str, Any]:
    """`timed` of each layout on one shape, or the layout's error."""
    model, problems = make_model(shape, folder / "model"), make_problems(folder / "problems.parquet")
    by_layout: dict[str, Any] = {}
    for layout in layouts:
        print(f"time: {layout.name}", file=sys.stderr, flush=True)
        try:
            by_layout[layout.name] = timed(layout, shape, device, model, problems, folder)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            by_layout[layout.name] = {"error": str(error)}
    return by_layout


# ---------------------------------------------------------------------- report


def benchmark(shapes: list[str], layouts: list[Layout], device: str) -> dict[str, Any]:
    gpus = torch.cuda.device_count() if device == "cuda" else 0
    missing = {layout.name: left_out(layout, gpus, device) for layout in layouts}
    possible = [layout for layout in layouts if missing[layout.name] is None]
    cards = [torch.cuda.get_device_name(number) for number in range(gpus)]
    result: dict[str, Any] = {
        "date": date.today().isoformat(),
        "hardware": ", ".join(sorted({f"{cards.count(card)} × {card}" for card in cards})) or platform.machine(),
        "left out": {name: reason for name, reason in missing.items() if reason},
        "layouts": [asdict(layout) for layout in possible],
        "shapes": {},
    }
    for name, reason in result["left out"].items():
        print(f"left out: {name}: {reason}", flush=True)
    for shape in shapes:
        with tempfile.TemporaryDirectory() as folder:
            result["shapes"][shape] = {
                "numbers": numbers(possible, SHAPES[shape], device, Path(folder)),
                "times": times(possible, SHAPES[shape], device, Path(folder)),
            }
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the numbers go")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--shape", nargs="+", choices=SHAPES, default=["0.5B", "1.5B"])
    parser.add_argument("--layouts", nargs="+", choices=[layout.name for layout in LAYOUTS], help="only these")
    parser.add_argument("--write", action="store_true", help=f"put the table into docs/{DOCUMENT}")
    arguments = parser.parse_args()
    result: dict[str, Any] = {}
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("no GPU here: nothing was run")
    else:
        layouts = [layout for layout in LAYOUTS if arguments.layouts is None or layout.name in arguments.layouts]
        result = benchmark(arguments.shape, layouts, arguments.device)
        print(table(result))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")
    if arguments.write and result:
        replace_in(gpu_report.DOCUMENT, "gpu_check", table(result))
    shapes = result.get("shapes", {}).values()
    wrong = [name for shape in shapes for name, difference in shape["numbers"].items() if not right(difference)]
    wrong += [name for shape in shapes for name, time in shape["times"].items() if "error" in time]
    if wrong:
        sys.exit(
            f"error: these layouts failed, or their numbers differ from the CPU's: {', '.join(dict.fromkeys(wrong))}"
        )


if __name__ == "__main__":
    main()
