"""The time of generation by transformers, with rows that leave and join the batch, over that of plain `generate`.

    python benchmarks/generation.py --json FILE [--turns 5]

The demo's model answers its 200 test problems, once greedily and four times by sampling, and generates rollouts in
groups of eight. Plain `generate` gets the same batches and draws the same tokens. The two take turns, in one thread.
Useful positions are decoded tokens up to the end token, over all decoded positions.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import GenerationConfig, LogitsProcessorList

from reward_ablation.config.sections.evaluation import Evaluation
from reward_ablation.data.word_problems import generate as word_problems
from reward_ablation.evaluation.generate import find_end_tokens, generate_transformers, pad_left, random_numbers
from reward_ablation.evaluation.requests import Completion, Request, cut_at_end, list_requests
from reward_ablation.models.demo import DemoModel
from reward_ablation.models.fetch import fetch
from reward_ablation.models.load import load_model
from reward_ablation.sampling.draws import SampleByRow, WatchLogits
from reward_ablation.sampling.prompts import DATE, tokenize_prompts
from reward_ablation.sampling.tokenizer import load_tokenizer
from reward_ablation.training.core.generation.by_transformers import own_draws

TOKENS = 48
GROUP = 8


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
    ratios, decoded = [], 0

    def count(module: Any, positional: tuple, named: dict[str, Any]) -> None:
        nonlocal decoded
        ids = named["input_ids"]
        decoded += ids.shape[0]  # the prefill finds one token of each row, too

    for _ in range(turns):
        seconds = {}
        hook = model.register_forward_pre_hook(count, with_kwargs=True)
        decoded, start = 0, time.process_time()
        now = generate_transformers(requests, model, ends, padding, evaluation)
        seconds["now"] = time.process_time() - start
        hook.remove()
        start = time.process_time()
        plain, positions = plain_evaluation(model, requests, evaluation, ends, padding)
        seconds["plain"] = time.process_time() - start
        ratios.append(seconds["now"] / seconds["plain"])
    useful = sum(len(completion.ids) for completion in plain)
    return {
        "rows": batch_size,
        "ratios": ratios,
        "equal": sum(a == b for a, b in zip(now, plain, strict=True)),
        "of": len(requests),
        "useful_plain": useful / positions,
        "useful": useful / decoded,
        "seconds": seconds["plain"],
    }


def roll_out(folder: Path, rows: int, turns: int) -> dict[str, Any]:
    """As `evaluate`, for rollouts of one training step each."""
    model, tokenizer = load_model(folder), load_tokenizer(folder)
    questions = [row["question"] for row in word_problems(turns * rows // GROUP, 0, "train")]
    config = GenerationConfig(
        max_new_tokens=TOKENS, do_sample=True, top_k=0, pad_token_id=tokenizer.pad_token_id, disable_compile=True,
        eos_token_id=find_end_tokens(folder, tokenizer),
    )  # fmt: skip
    ratios, equal, useful, positions = [], 0, 0, 0
    for turn in range(turns):
        texts = [f"{question}\n" for question in questions[turn * rows // GROUP :][: rows // GROUP] for _ in range(GROUP)]
        inputs = tokenizer(texts, return_tensors="pt", padding=True)
        seconds, output = {}, {}
        for whole in (True, False):
            start = time.process_time()
            with torch.no_grad(), own_draws(model, config, list(range(rows)), whole):
                output[whole] = model.generate(**inputs, generation_config=config)
            seconds[whole] = time.process_time() - start
        ratios.append(seconds[False] / seconds[True])
        completions = output[True][:, inputs["input_ids"].shape[1] :]
        equal += int((output[True] == output[False]).all(1).sum())
        useful += int((completions != tokenizer.pad_token_id).sum())
        positions += completions.numel()
    return {
        "rows": rows,
        "ratios": ratios,
        "equal": equal,
        "of": rows * turns,
        "useful_plain": useful / positions,
        "seconds": seconds[True],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True, help="file for the result")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--model", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for rows in (16, 64, 400):
        print(evaluate(options.model, rows, options.turns))
    for rows in (16, 64):
        print(roll_out(options.model, rows, options.turns * 4))


if __name__ == "__main__":
    main()
