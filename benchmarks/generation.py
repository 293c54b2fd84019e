"""The time of generation by transformers, with rows that leave and join the batch, over that of plain `generate`.

    python benchmarks/generation.py --json FILE [--turns 5]

The demo's model answers its 200 test problems, once greedily and four times by sampling, and generates rollouts in
groups of eight. Plain `generate` gets the same batches and draws the same tokens. The two take turns, in one thread.
A position is useful if its token is part of a completion: at or before the end token. Positions are counted where a
token is drawn, so that a prefill gives one to each of its rows.
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
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from transformers import GenerationConfig, LogitsProcessorList

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


def plain_evaluation(model: Any, requests: list[Request], evaluation: Evaluation, ends: list[int], padding: int):
    """Completions by plain `generate`, in batches of similar lengths, and the number of decoded positions."""
    order = sorted(range(len(requests)), key=lambda number: -len(requests[number].prompt))
    completions: dict[int, Completion] = {}
    decoded = 0
    with torch.inference_mode():
        for start in range(0, len(order), evaluation.batch_size):
            numbers = order[start : start + evaluation.batch_size]
            batch = [requests[number] for number in numbers]
            ids, mask = pad_left([request.prompt for request in batch], padding)
            sample = SampleByRow(random_numbers(batch, evaluation), evaluation.temperature, evaluation.top_p)
            output = model.generate(
                input_ids=ids, attention_mask=mask, logits_processor=LogitsProcessorList([WatchLogits(), sample])
            )[:, ids.shape[1] :]
            decoded += output.numel()
            for number, row in zip(numbers, output.tolist(), strict=True):
                completions[number] = cut_at_end(row, ends)
    return [completions[number] for number in range(len(requests))], decoded


def evaluate(folder: Path, batch_size: int, turns: int) -> dict[str, Any]:
    """Ratios of CPU time, equal completions, and shares of useful positions, before and now."""
    model, tokenizer = load_model(folder), load_tokenizer(folder)
    rows = word_problems(200, 0, "test")
    prompts = tokenize_prompts([f"{row['question']}\n" for row in rows], tokenizer, DATE)
    evaluation = Evaluation(answer_format="hash", samples=4, max_new_tokens=TOKENS, batch_size=batch_size)
    requests = list_requests(map(str, range(len(rows))), prompts, evaluation)
    ends, padding = find_end_tokens(folder, tokenizer), tokenizer.pad_token_id
    ratios: list[float] = []
    for turn in range(turns):
        seconds = {}
        for way in ("plain", "now") if turn % 2 else ("now", "plain"):
            start = time.process_time()
            if way == "now":
                with counted_positions() as decoded:
                    now = generate_transformers(requests, model, ends, padding, evaluation)
            else:
                plain, positions = plain_evaluation(model, requests, evaluation, ends, padding)
            seconds[way] = time.process_time() - start
        ratios.append(seconds["now"] / seconds["plain"])
    useful = sum(len(completion.ids) for completion in plain)
    return {
        "what": "evaluation",
        "rows": batch_size,
        "ratios": ratios,
        "equal": sum(a == b for a, b in zip(now, plain, strict=True)),
        "of": len(requests),
        "useful_plain": useful / positions,
        "useful": useful / sum(decoded),
    }


def roll_out(folder: Path, rows: int, turns: int) -> dict[str, Any]:
    """As `evaluate`, for rollouts of one training step each."""
    model, tokenizer = load_model(folder), load_tokenizer(folder)
    questions = [row["question"] for row in word_problems(turns * rows // GROUP, 0, "train")]
    config = GenerationConfig(
        max_new_tokens=TOKENS, do_sample=True, top_k=0, pad_token_id=tokenizer.pad_token_id, disable_compile=True,
        eos_token_id=find_end_tokens(folder, tokenizer),
    )  # fmt: skip
    ratios: list[float] = []
    equal = useful = positions = decoded = 0
    for turn in range(turns):
        chosen = questions[turn * rows // GROUP :][: rows // GROUP]
        texts = [f"{question}\n" for question in chosen for _ in range(GROUP)]
        inputs = tokenizer(texts, return_tensors="pt", padding=True)
        seconds, output = {}, {}
        for whole in (True, False) if turn % 2 else (False, True):
            start = time.process_time()
            with torch.no_grad(), own_draws(model, config, list(range(rows)), whole), counted_positions() as counted:
                output[whole] = model.generate(**inputs, generation_config=config)
            seconds[whole] = time.process_time() - start
            decoded += sum(counted)
        ratios.append(seconds[False] / seconds[True])
        completions = output[True][:, inputs["input_ids"].shape[1] :]
        equal += int((output[True] == output[False]).all(1).sum())
        useful += int((completions != tokenizer.pad_token_id).sum())
        positions += completions.numel()
    return {
        "what": "rollouts",
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
        "| | rows | CPU time over plain `generate` | useful positions, plain | useful positions | equal completions |",
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
            f"Load average at the end: {result['load']:.1f}, on {os.cpu_count()} cores.",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="where the numbers go")
    parser.add_argument("--turns", type=int, default=5, help="turns of evaluation; rollouts take four times as many")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        fetch(DemoModel(), Path(folder) / "model.json")
        for batch_size in (64, 400):
            rows.append(evaluate(Path(folder), batch_size, options.turns))
            print(rows[-1], flush=True)
        for batch_size in (16, 64):
            rows.append(roll_out(Path(folder), batch_size, options.turns * 4))
            print(rows[-1], flush=True)
    result = {"rows": rows, "goals": GOALS, "load": os.getloadavg()[0]}
    options.json.write_text(json.dumps(result, indent=2) + "\n")
    print(table(result))


if __name__ == "__main__":
    main()
