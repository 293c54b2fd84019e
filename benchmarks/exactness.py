"""How exact measured gradient similarities are: one step on real questions, against separate passes in float64.

    python benchmarks/exactness.py --json FILE

SmolLM2-135M-Instruct answers four questions of GSM8K four times each (up to 64 tokens). Each component's gradient is
then computed in three ways: by a plain forward and backward pass of its own in float64 (the reference), by the same in
float32 and under bfloat16 autocast, and by the trainer in one pass. Errors are those of cosines between components,
over all layers and by layer. The benchmark needs the weights and questions that `config/smollm2_gsm8k.yaml` names. It
is skipped if they are missing.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from torch import Tensor

from reward_ablation.data.problems import PrepareSpec, prepare
from reward_ablation.models.load import load_model
from reward_ablation.spec.run import RunSpec
from reward_ablation.training.around.job import TrainingJob
from reward_ablation.training.around.run import build_trainer
from reward_ablation.training.core.gradients.recorder import layer_of
from reward_ablation.training.core.trainer import AblationTrainer

ROOT = Path(__file__).parents[1]
CONFIG = ROOT / "config" / "smollm2_gsm8k.yaml"
#: Three components whose scores differ between completions. Correctness would not: this model is hardly ever right.
COMPONENTS = {
    "format": {"function": "answer_format", "parameters": {"format": "hash"}},
    "length": {"function": "token_length", "parameters": {"target": 40, "width": 40}},
    "random": {"function": "random", "parameters": {}},
}
COMPLETIONS = 16


def spec_of(config: dict[str, Any], **training: Any) -> RunSpec:
    """Spec of a run of one step on 16 completions, by default in one block."""
    settings = {**config["training"], "max_steps": 1, "gradient_accumulation_steps": 1, **training}
    settings.setdefault("per_device_train_batch_size", COMPLETIONS)
    settings["per_device_train_batch_size"] = COMPLETIONS // settings["gradient_accumulation_steps"]
    components = {name: {**component, "placement": "all_tokens"} for name, component in COMPONENTS.items()}
    prompt = {"system": None, "chat": True, **config["prompt"]}
    source = {"source": "word_problems", "limit": None, "count": COMPLETIONS, "seed": 0, "split": "train"}
    spec = {
        "model": {"source": "local", "content": "unused"},
        "data": {"source": {**source, "content": "unused"}, "duplicates": "refuse", "overlap": "refuse"},
        "components": components,
        "weights": dict.fromkeys(COMPONENTS, 1.0),
        "training": settings,
        "prompt": prompt,
        "lora": None,
        "gradients": {"every": 1, "whole": []},
        "gpus": 0,
        "seed": 0,
    }
    return RunSpec.read(spec)


def separate_passes(model: Any, batch: dict[str, Tensor], autocast: bool) -> dict[str, np.ndarray]:
    """Gram matrices of the components' gradients, by layer, from a plain pass for each component.

    The loss is that of type dapo on policy, written out: minus the sum of advantages times log-probabilities, divided
    by the number of tokens.
    """
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    attention = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
    width, mask = batch["completion_ids"].size(1), batch["completion_mask"]
    named = list(model.named_parameters())
    gradients = []
    for k in range(len(COMPONENTS)):
        model.zero_grad()
        for rows in torch.arange(COMPLETIONS).chunk(4):  # four at a time, to save memory
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                kept = {"logits_to_keep": width + 1}
                logits = model(input_ids=ids[rows], attention_mask=attention[rows], **kept).logits[:, :-1]
            logits = logits if logits.dtype == torch.float64 else logits.float()
            log_probs = torch.log_softmax(logits, -1).gather(2, batch["completion_ids"][rows, :, None])[:, :, 0]
            (-(batch["alone"][rows, k, None] * log_probs * mask[rows]).sum() / mask.sum()).backward()
        gradients.append([parameter.grad.clone() for _, parameter in named])
    grams: dict[str, np.ndarray] = {"all": np.zeros((len(COMPONENTS),) * 2)}
    for place, (name, _) in enumerate(named):
        stacked = torch.stack([gradient[place].flatten() for gradient in gradients])
        gram = (stacked.double() @ stacked.double().T if stacked.numel() < 2e7 else stacked @ stacked.T).numpy()
        grams["all"] = grams["all"] + gram
        grams[layer_of(name)] = grams.get(layer_of(name), 0.0) + gram
    return grams


def measured(trainer: AblationTrainer, batch: dict[str, Tensor]) -> dict[str, Any]:
    """Tables that the trainer measures on the batch, in as many micro-batches as its settings say."""
    parts = trainer.args.gradient_accumulation_steps
    trainer.current_gradient_accumulation_steps = parts
    trainer.model.zero_grad()
    for rows in torch.arange(COMPLETIONS).chunk(parts):
        part = {key: value[rows] if value.dim() else value for key, value in batch.items()}
        trainer.compute_loss(trainer.model, part).backward()
        trainer.keep_block()
    return trainer._gradients.tables(1, lambda tensor: tensor, lambda blocks: blocks)


def cosines_of(grams: dict[str, np.ndarray]) -> dict[tuple[str, str, str], float]:
    """Cosine of each pair of components by layer, from Gram matrices."""
    return {
        (layer, a, b): gram[i, j] / np.sqrt(gram[i, i] * gram[j, j])
        for layer, gram in grams.items()
        for (i, a), (j, b) in itertools.combinations(enumerate(COMPONENTS), 2)
    }


def measured_cosines(tables: dict[str, Any], across: bool = True) -> dict[tuple[str, str, str], float]:
    """Cosines as `cosines_of` gives them, from the measured table; with or without the terms between blocks."""
    rows = tables["gradients"].to_pandas().query("definition == 'alone'")
    grams: dict[str, np.ndarray] = {}
    names = list(COMPONENTS)
    for row in rows.itertuples():
        i, j = names.index(row.component_a), names.index(row.component_b)
        gram = grams.setdefault(row.layer, np.zeros((len(names),) * 2))
        gram[i, j] = gram[j, i] = row.dot - (0.0 if across else row.across_blocks * row.norm_a * row.norm_b)
    return cosines_of(grams)


def errors(found: dict[tuple, float], reference: dict[tuple, float]) -> dict[str, float]:
    """Errors of cosines: the largest of those over all layers, and the median and the largest of those by layer."""
    differences = {key: abs(found[key] - value) for key, value in reference.items()}
    by_layer = [value for (layer, _, _), value in differences.items() if layer != "all"]
    overall = [value for (layer, _, _), value in differences.items() if layer == "all"]
    return {"all": max(overall), "median": float(np.median(by_layer)), "worst": max(by_layer)}


def measure(config: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Errors of each way, and the measured cosines with their parts."""
    model = (ROOT / config["model"]["path"]).resolve()
    problems = folder / "train.parquet"
    source = {**config["data"]["train"], "path": str((ROOT / config["data"]["train"]["path"]).resolve())}
    prepare(
        PrepareSpec.model_validate({"source": source, "duplicates": "refuse", "overlap": "refuse"}), "train", problems
    )

    def trainer(name: str, **training: Any) -> AblationTrainer:
        made = build_trainer(TrainingJob(spec_of(config, **training), "code", model, problems, folder / name))
        made.model.train()
        made.current_gradient_accumulation_steps = 1
        return made

    one_block = trainer("one_block")
    print("completions", file=sys.stderr, flush=True)
    batch = one_block._generate_and_score_completions(next(iter(one_block.get_train_dataloader())))
    batch = {key: value for key, value in batch.items() if isinstance(value, Tensor)}
    completions = dict(one_block._completions)
    ways: dict[str, Callable[[], dict]] = {}
    print("float64", file=sys.stderr, flush=True)
    reference = cosines_of(separate_passes(load_model(model).double(), batch, autocast=False))
    one_pass = measured(one_block, batch)
    del one_block

    def by_trainer(name: str, **training: Any) -> dict[str, Any]:
        made = trainer(name, **training)
        made._completions = completions
        return measured(made, batch)

    several = by_trainer("several", gradient_accumulation_steps=4)
    ways = {
        "separate passes, float32": lambda: cosines_of(separate_passes(load_model(model), batch, autocast=False)),
        "one pass, float32": lambda: measured_cosines(one_pass),
        "one pass, float32, 4 micro-batches": lambda: measured_cosines(several),
        "4 micro-batches, without the terms between them": lambda: measured_cosines(several, across=False),
        "separate passes, bfloat16": lambda: cosines_of(separate_passes(load_model(model), batch, autocast=True)),
        "one pass, bfloat16": lambda: measured_cosines(by_trainer("bf16", bf16=True)),
    }
    result: dict[str, Any] = {"ways": {}}
    for way, cosines in ways.items():
        print(way, file=sys.stderr, flush=True)
        result["ways"][way] = errors(cosines(), reference)
    parts = one_pass["gradients"].to_pandas().query("layer == 'all' and definition == 'alone'")
    columns = [
        "component_a",
        "component_b",
        "cosine",
        "cosine_low",
        "cosine_high",
        "self",
        "same_prompt",
        "cross_prompt",
    ]
    result["parts"] = parts[parts.component_a != parts.component_b][columns].to_dict("records")
    advantages = batch["alone"].double().numpy()
    result["advantages"] = np.corrcoef(advantages.T).tolist()
    result["tokens"] = batch["completion_mask"].sum(1).tolist()
    return result


def table(result: dict[str, Any]) -> str:
    """The tables as Markdown."""
    if not result:
        return "Not run: the weights or the questions are missing."
    lines = ["| way | error over all layers | by layer, median | by layer, worst |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {way} | {error['all']:.1e} | {error['median']:.1e} | {error['worst']:.1e} |"
        for way, error in result["ways"].items()
    ]
    lines += [
        "",
        "| pair | cosine | self | same prompt | across prompts | correlation of advantages |",
        "| " + "--- | " * 6,
    ]
    names = list(COMPONENTS)
    for row in result["parts"]:
        a, b = row["component_a"], row["component_b"]
        alone = result["advantages"][names.index(a)][names.index(b)]
        lines.append(
            f"| {a}, {b} | {row['cosine']:.3f} ({row['cosine_low']:.2f} to {row['cosine_high']:.2f}) | "
            f"{row['self']:.3f} | {row['same_prompt']:.3f} | {row['cross_prompt']:.3f} | {alone:.3f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", required=True, type=Path, help="file for the result")
    arguments = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    config = copy.deepcopy(yaml.safe_load(CONFIG.read_text()))
    wanted = [ROOT / config["model"]["path"], ROOT / config["data"]["train"]["path"]]
    result: dict[str, Any] = {}
    if all(path.exists() for path in wanted):
        with tempfile.TemporaryDirectory() as folder:
            result = measure(config, Path(folder))
    else:
        print(f"skipped: no {', '.join(str(path) for path in wanted if not path.exists())}", file=sys.stderr)
    arguments.json.write_text(json.dumps(result, indent=2))
    print(table(result))


if __name__ == "__main__":
    main()
