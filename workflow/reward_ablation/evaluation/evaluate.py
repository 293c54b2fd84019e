"""Graded answers, from model folders and sets of problems: prompts, then `generate`, then `score`.

The command of this package calls it for each model and set whose answers are missing. It is apart from the command and
from `stored` because this code, with what it imports, decides the answers: if it changes, they are made again.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from reward_ablation.evaluation.generate import (
    Generator,
    TransformersGenerator,
    VllmGenerator,
    choose_backend,
    find_end_tokens,
)
from reward_ablation.evaluation.requests import Request, list_requests
from reward_ablation.evaluation.score import score
from reward_ablation.models.device import gpu_kind
from reward_ablation.models.load import whole_model
from reward_ablation.sampling.context import context_of, describe_too_long, too_long
from reward_ablation.sampling.prompts import render_prompt, tokenize_prompts
from reward_ablation.sampling.tokenizer import load_tokenizer
from reward_ablation.spec.run import EvaluateSpec
from reward_ablation.system.errors import StudyError

if TYPE_CHECKING:
    import pandas as pd
    from transformers import PreTrainedTokenizerBase


class Evaluator:
    """Generates and grades answers of models to `sets`; a model, or its engine, stays loaded until another is asked.

    An adapter is not merged into its base, because the model that was trained is judged, and merging in bfloat16 would
    round small updates away.
    """

    def __init__(self, spec: EvaluateSpec, base: Path | None, sets: Mapping[str, pd.DataFrame]):
        self.spec, self.base, self.sets = spec, base, sets
        self.generator: Generator | None = None
        self.whole: Path | None = None  # folder of the whole model whose tokenizer made `requests`
        self.tokenizer: PreTrainedTokenizerBase
        self.requests: dict[str, list[Request]] = {}

    def answers(self, folder: Path, name: str) -> pa.Table:
        """Answers of one model to the set of this name: a table of `score.schema_of`, in the problems' order."""
        self._read_prompts(whole_model(folder, self.base))
        assert self.whole is not None
        end_tokens = find_end_tokens(self.whole, self.tokenizer)
        if self.generator is None:
            longest = max(len(request.prompt) for requests in self.requests.values() for request in requests)
            self.generator = generator(self.spec, self.base, longest)
        requests = self.requests[name]
        completions = self.generator(requests, folder, end_tokens, self.tokenizer.pad_token_id)
        start = time.monotonic()
        problems = self.sets[name]
        golds = dict(zip(problems["id"], problems["answer"], strict=True))
        table = score(requests, completions, golds, self.spec.evaluation.answer_format, self.tokenizer)
        print(f"graded {table.num_rows} completions in {time.monotonic() - start:.1f} s", flush=True)
        return table

    def _read_prompts(self, whole: Path) -> None:
        """Tokenize all prompts by the tokenizer of a whole model, once for all adapters over one base."""
        if whole == self.whole:
            return
        self.whole, self.tokenizer, self.generator = whole, load_tokenizer(whole), None
        context, completion = context_of(whole), self.spec.evaluation.max_new_tokens
        gc.collect()  # vLLM's engine releases its memory when it is garbage-collected
        for name, problems in self.sets.items():
            rendered = [render_prompt(question, self.spec.prompt) for question in problems["question"]]
            prompts = tokenize_prompts(
                rendered, self.tokenizer, self.spec.prompt.date, self.spec.chat_template_kwargs, [*problems["id"]]
            )
            if left_out := too_long(prompts, context, completion):
                described = describe_too_long(prompts, left_out, context, completion)
                raise StudyError(
                    f"evaluation.max_new_tokens: {name}: {described}; lower it, or take long questions out of the set"
                )
            self.requests[name] = list_requests(problems["id"], prompts, self.spec.evaluation)


def generator(spec: EvaluateSpec, base: Path | None, longest: int) -> Generator:
    """The evaluation's backend, in bfloat16 on NVIDIA's GPUs, else in float32. `cuda` also means Apple's GPU."""
    kind = gpu_kind() if spec.device == "cuda" else "cpu"
    if kind is None:
        raise StudyError("launch.gpus: this machine shows no GPU; set launch.gpus: 0 to evaluate on the CPU")
    dtype = "bfloat16" if kind == "cuda" else "float32"
    if choose_backend(spec.evaluation.backend, spec.device) == "vllm":
        return VllmGenerator(spec.evaluation, base, dtype, longest)
    return TransformersGenerator(spec.evaluation, base, dtype, kind)
