"""The text that a model got for each problem, chat template and all: the tokenizer alone, no model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reward_ablation.sampling.prompts import render_prompt
from reward_ablation.sampling.tokenizer import load_tokenizer
from reward_ablation.study.run_spec import ArmSpec


def prompt_texts(questions: Mapping[str, str], spec: ArmSpec, model: Path) -> dict[str, str]:
    """Prompts by problem id.

    Parameters
    ----------
    questions : mapping of str to str
        By problem id.
    spec : ArmSpec
        A run's: its prompt, and the variables of the chat template among its training settings.
    model : Path
        Folder of the base model, with its tokenizer.
    """
    rendered: dict[str, Any] = {problem: render_prompt(text, spec.prompt) for problem, text in questions.items()}
    if not spec.prompt.chat:
        return rendered
    tokenizer = load_tokenizer(model)
    variables = spec.training.get("chat_template_kwargs") or {}
    return {
        problem: str(tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False, **variables))
        for problem, chat in rendered.items()
    }
