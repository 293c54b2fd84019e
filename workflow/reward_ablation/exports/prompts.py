"""The text that a model got for each problem, chat template and all: the tokenizer alone, no model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from reward_ablation.data.prompts import render_prompt
from reward_ablation.models.load import load_tokenizer
from reward_ablation.study.sections.prompt import Prompt


def prompt_texts(problems: pd.DataFrame, spec: dict[str, Any], model: Path) -> dict[str, str]:
    """Prompts by problem id.

    Parameters
    ----------
    problems : DataFrame
        Columns id and question.
    spec : dict
        A run's: its prompt, and the variables of the chat template among its training settings.
    model : Path
        Folder of the base model, with its tokenizer.
    """
    prompt = Prompt.model_validate(spec["prompt"])
    rendered = {row.id: render_prompt(row.question, prompt) for row in problems.itertuples()}
    if not prompt.chat:
        return {problem: str(text) for problem, text in rendered.items()}
    tokenizer = load_tokenizer(model)
    variables = spec["training"].get("chat_template_kwargs") or {}
    return {
        problem: tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False, **variables)
        for problem, messages in rendered.items()
    }
