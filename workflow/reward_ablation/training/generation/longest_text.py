"""How long a text vLLM must have room for: it would else make room for the longest that the model can read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from reward_ablation.data.prompts import render_prompt, tokenize_prompts
from reward_ablation.models.load import load_tokenizer
from reward_ablation.study.sections.prompt import Prompt

#: TRL's own default of max_completion_length.
COMPLETION_LENGTH = 256


def longest_text(spec: dict[str, Any], model: Path, problems: Path) -> int:
    """Tokens of the longest prompt of a run and a completion of full length; or what its settings say.

    Parameters
    ----------
    spec : dict
        The run's.
    model : Path
        Folder of the base model.
    problems : Path
        Prepared training set.
    """
    training = spec["training"]
    if training.get("vllm_max_model_length") is not None:
        return training["vllm_max_model_length"]
    prompt = Prompt.model_validate(spec["prompt"])
    prompts = [render_prompt(question, prompt) for question in pq.read_table(problems)["question"].to_pylist()]
    tokens = tokenize_prompts(prompts, load_tokenizer(model), training.get("chat_template_kwargs"))
    return max(map(len, tokens)) + training.get("max_completion_length", COMPLETION_LENGTH)
