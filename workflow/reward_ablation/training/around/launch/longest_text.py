"""How long a text vLLM must have room for: vLLM would else make room for the longest text that the model can read."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq

from reward_ablation.config.grpo_settings import COMPLETION_LENGTH
from reward_ablation.sampling.prompts import render_prompt, tokenize_prompts
from reward_ablation.sampling.tokenizer import load_tokenizer
from reward_ablation.study.run_spec import RunSpec
from reward_ablation.system.errors import StudyError


def longest_text(spec: RunSpec, model: Path, problems: Path) -> int:
    """Tokens that vLLM makes room for: what the settings say, or the longest prompt and a completion of full length.

    Raises
    ------
    StudyError
        The settings, or the model, have less room than that: vLLM would cut completions of long prompts short.
    """
    training = spec.training
    prompts = [render_prompt(question, spec.prompt) for question in pq.read_table(problems)["question"].to_pylist()]
    tokens = tokenize_prompts(prompts, load_tokenizer(model), training.get("chat_template_kwargs"))
    longest = max(map(len, tokens))
    needed = longest + training.get("max_completion_length", COMPLETION_LENGTH)
    context = json.loads((model / "config.json").read_text()).get("max_position_embeddings")
    for room, what in (
        (training.get("vllm_max_model_length"), "training.vllm_max_model_length"),
        (context, "the model"),
    ):
        if room is not None and room < needed:
            raise StudyError(
                f"launch.vllm: {what} has room for {room} tokens, and the longest prompt takes {longest} beside a "
                f"completion, {needed} in all; lower max_completion_length, or leave long questions out"
            )
    return training.get("vllm_max_model_length") or needed
