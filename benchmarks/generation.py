"""The time of generation by transformers, with rows that leave and join the batch, over that of plain `generate`.

    python benchmarks/generation.py --json FILE [--turns 5] [--device cpu|cuda]

The demo's model answers its 200 test problems, once greedily and four times by sampling, and generates rollouts in
groups of eight. Plain `generate` gets the same batches and draws the same tokens. The two take turns, in one thread.
On a GPU, wall time is taken. There a model of the shape of Qwen2.5-0.5B generates as well: random weights in bfloat16,
up to 128 tokens, of which each ends a completion with a chance of about 2 %. A position is useful if its token is part
of a completion: at or before the end token. Positions are counted where a token is drawn, so that a prefill gives one
to each of its rows.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from transformers import GenerationConfig, LogitsProcessorList
from workers.shaped_models import QWEN, shaped_model

from reward_ablation.config.sections.evaluation import Evaluation
from reward_ablation.data.word_problems import generate as word_problems
from reward_ablation.evaluation.generate import find_end_tokens, generate_transformers, pad_left, random_numbers
from reward_ablation.evaluation.requests import Completion, Request, cut_at_end, list_requests
from reward_ablation.models.demo import DemoModel
from reward_ablation.models.fetch import fetch
from reward_ablation.models.load import load_model
from reward_ablation.sampling.decode import Batch
from reward_ablation.sampling.draws import SampleByRow, WatchLogits
from reward_ablation.sampling.prompts import DATE, tokenize_prompts
from reward_ablation.sampling.tokenizer import load_tokenizer
from reward_ablation.training.core.generation.by_transformers import own_draws

TOKENS = 48
GROUP = 8
#: Rows of an evaluation's batches and of a step's rollouts, by device.
ROWS = {"cpu": ((64, 400), (16, 64)), "cuda": ((400,), (64,))}
GOALS = {"evaluation": 0.5, "useful": 0.8}


@contextmanager
def counted_positions() -> Iterator[list[int]]:
    """List that grows by the number of rows at each step of a batch."""
    rows: list[int] = []
    step = Batch.step

    def counting(batch: Batch) -> list[tuple[int, list[int]]]:
        rows.append(len(batch.ids))
        return step(batch)

    with patch.object(Batch, "step", counting):
        yield rows


@dataclass(frozen=True)
class Subject:
    """A model that generates, and what its completions may be."""

    name: str
    model: Any
    tokenizer: Any
    ends: list[int]
    tokens: int

    def seconds(self) -> float:
        """CPU seconds of this process; seconds of the clock, once the work is done, if the model is on a GPU."""
        if self.model.device.type == "cpu":
            return time.process_time()
        torch.cuda.synchronize()
        return time.perf_counter()


def subjects(folder: Path, device: str) -> list[Subject]:
    """The demo's model and, on a GPU, a larger one of random weights."""
    fetch(DemoModel(), folder / "model.json")
    tokenizer = load_tokenizer(folder)
    demo = Subject("demo", load_model(folder).to(device), tokenizer, find_end_tokens(folder, tokenizer), TOKENS)
    if device == "cpu":
        return [demo]
    large = shaped_model(QWEN["0.5B"]).to(device, torch.bfloat16).eval()
    return [demo, Subject("0.5B", large, tokenizer, list(range(50, large.config.vocab_size, 50)), 128)]


def plain_evaluation(model: Any, requests: list[Request], evaluation: Evaluation, ends: list[int], padding: int):
    """Completions by plain `generate`, in batches of similar lengths, and the number of decoded positions."""
    order = sorted(range(len(requests)), key=lambda number: -len(requests[number].prompt))
    completions: dict[int, Completion] = {}
    decoded = 0
    with torch.inference_mode():
        for start in range(0, len(order), evaluation.batch_size):
            numbers = order[start : start + evaluation.batch_size]
            batch = [requests[number] for number in numbers]
            ids, mask = (part.to(model.device) for part in pad_left([request.prompt for request in batch], padding))
            sample = SampleByRow(random_numbers(batch, evaluation), evaluation.temperature, evaluation.top_p)
            output = model.generate(
                input_ids=ids, attention_mask=mask, logits_processor=LogitsProcessorList([WatchLogits(), sample])
            )[:, ids.shape[1] :]
            decoded += output.numel()
            for number, row in zip(numbers, output.tolist(), strict=True):
                completions[number] = cut_at_end(row, ends)
    return [completions[number] for number in range(len(requests))], decoded


def evaluate(subject: Subject, batch_size: int, turns: int) -> dict[str, Any]:
    """Ratios of time, equal completions, and shares of useful positions, before and now."""
    model, tokenizer, ends = subject.model, subject.tokenizer, subject.ends
    rows = word_problems(200, 0, "test")
    prompts = tokenize_prompts([f"{row['question']}\n" for row in rows], tokenizer, DATE)
    evaluation = Evaluation(answer_format="hash", samples=4, max_new_tokens=subject.tokens, batch_size=batch_size)
    requests = list_requests(map(str, range(len(rows))), prompts, evaluation)
    padding = tokenizer.pad_token_id
    ratios: list[float] = []
    for turn in range(turns):
        seconds = {}
        for way in ("plain", "now") if turn % 2 else ("now", "plain"):
            start = subject.seconds()
            if way == "now":
                with counted_positions() as decoded:
                    now = generate_transformers(requests, model, ends, padding, evaluation)
            else:
                plain, positions = plain_evaluation(model, requests, evaluation, ends, padding)
            seconds[way] = subject.seconds() - start
        ratios.append(seconds["now"] / seconds["plain"])
    useful = sum(len(completion.ids) for completion in plain)
    return {
        "what": f"evaluation, {subject.name}",
        "rows": batch_size,
        "ratios": ratios,
        "equal": sum(a == b for a, b in zip(now, plain, strict=True)),
        "of": len(requests),
        "useful_plain": useful / positions,
        "useful": useful / sum(decoded),
    }


def roll_out(subject: Subject, rows: int, turns: int) -> dict[str, Any]:
    """As `evaluate`, for rollouts of one training step each."""
    model, tokenizer = subject.model, subject.tokenizer
    questions = [row["question"] for row in word_problems(turns * rows // GROUP, 0, "train")]
    config = GenerationConfig(
        max_new_tokens=subject.tokens, do_sample=True, top_k=0, pad_token_id=tokenizer.pad_token_id,
        eos_token_id=subject.ends, disable_compile=True,
    )  # fmt: skip
    ratios: list[float] = []
    equal = useful = positions = decoded = 0
    for turn in range(turns):
        chosen = questions[turn * rows // GROUP :][: rows // GROUP]
        texts = [f"{question}\n" for question in chosen for _ in range(GROUP)]
        inputs = tokenizer(texts, return_tensors="pt", padding=True).to(model.device)
        seconds, output = {}, {}
        for whole in (True, False) if turn % 2 else (False, True):
            start = subject.seconds()
            with torch.no_grad(), own_draws(model, config, list(range(rows)), whole), counted_positions() as counted:
                output[whole] = model.generate(**inputs, generation_config=config)
            seconds[whole] = subject.seconds() - start
            decoded += sum(counted)
        ratios.append(seconds[False] / seconds[True])
        completions = {whole: ids[:, inputs["input_ids"].shape[1] :] for whole, ids in output.items()}
        plain, now = ([cut_at_end(row, subject.ends) for row in completions[whole].tolist()] for whole in (True, False))
        equal += sum(a == b for a, b in zip(plain, now, strict=True))
        useful += sum(len(completion.ids) for completion in plain)
        positions += completions[True].numel()
    return {
        "what": f"rollouts, {subject.name}",
        "rows": rows,
        "ratios": ratios,
        "equal": equal,
        "of": rows * turns,
        "useful_plain": useful / positions,
        "useful": useful / decoded,
    }


def table(result: dict[str, Any]) -> str:
    """The result as Markdown."""
    lines = [
        "| | rows | time over plain `generate` | useful positions, plain | useful positions | equal completions |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in result["rows"]:
        ratios = row["ratios"]
        spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}, {len(ratios)} turns)"
        lines.append(
            f"| {row['what']} | {row['rows']} | {spread} | {row['useful_plain']:.0%} | {row['useful']:.0%} "
            f"| {row['equal']:,} of {row['of']:,} |"
        )
    goals = result["goals"]
    return "\n".join(
        [
            *lines,
            "",
            f"Goals: {goals['evaluation']} of the time in evaluation, {goals['useful']:.0%} useful positions. "
            f"Load average at the end: {result['load']:.1f}, on {os.cpu_count()} cores. Device: {result['device']}.",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="where the numbers go")
    parser.add_argument("--turns", type=int, default=5, help="turns of evaluation; rollouts take four times as many")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    of_evaluation, of_rollouts = ROWS[options.device]
    with tempfile.TemporaryDirectory() as folder:
        for subject in subjects(Path(folder), options.device):
            for batch_size in of_evaluation:
                rows.append(evaluate(subject, batch_size, options.turns))
                print(rows[-1], flush=True)
            for batch_size in of_rollouts:
                rows.append(roll_out(subject, batch_size, options.turns * 4))
                print(rows[-1], flush=True)
    device = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    result = {"rows": rows, "goals": GOALS, "load": os.getloadavg()[0], "device": device}
    options.json.write_text(json.dumps(result, indent=2) + "\n")
    print(table(result))


if __name__ == "__main__":
    main()
