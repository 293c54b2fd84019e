"""Check that a tokenizer's chat template puts into a prompt what the study writes, and all of it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from reward_ablation.config.sections.data import Prompt as PromptSection
from reward_ablation.sampling.prompts import Prompt, render_prompt, tokenize_prompts
from reward_ablation.sampling.tokenizer import load_tokenizer
from reward_ablation.system.errors import StudyError

#: Words that no template has of its own.
SYSTEM, QUESTION, COMPLETION = "systemzyx", "questionzyx", "completionzyx"
#: Most characters of a rendered text in a message.
_SHOWN = 600


def check_prompt(folder: Path, where: str, written: Prompt, variables: dict[str, Any]) -> None:
    """Refuse a model with which a prompt lacks the system text or the question, or is empty before the question.

    Parameters
    ----------
    folder : Path
        Folder of the model.
    where : str
        What an error message calls the model.
    written : Prompt
        How the study's questions become prompts.
    variables : dict
        Further variables of the chat template.

    Raises
    ------
    StudyError
        The chat template refuses, drops, repeats or reorders a part. Or a plain prompt is the question alone, and the
        tokenizer begins with no token of its own.
    """
    tokenizer: Any = load_tokenizer(folder, where)
    system = None if written.system is None else SYSTEM
    prompt = PromptSection(system=system, template=written.template, chat=written.chat)
    rendered = render_prompt(QUESTION, prompt)
    tokenize_prompts([rendered], tokenizer, variables)
    if isinstance(rendered, list):
        render = partial(tokenizer.apply_chat_template, tokenize=False, add_generation_prompt=True)
        parts = {"system text (prompt.system)": system, "question": QUESTION}
        check_rendered(render(rendered, **variables), parts, where)
    elif not all(tokenizer(text=[render_prompt("", prompt)])["input_ids"]):
        raise StudyError(
            "prompt.template: with chat: false and a tokenizer that puts no token first, a prompt needs some text "
            r"besides {question}; write, for example, 'Question: {question}\nAnswer:'"
        )


def check_rendered(text: str, parts: Mapping[str, str | None], where: str) -> None:
    """Refuse a rendered chat that does not have each part exactly once, in order. Parts that are None are not used."""
    used = {name: part for name, part in parts.items() if part is not None}
    shown = repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")
    for name, part in used.items():
        if (count := text.count(part)) != 1:
            fault = "drops" if count == 0 else "repeats"
            remedy = "write it into prompt.template" if part == SYSTEM else "take a model with another template"
            raise StudyError(
                f"{where}: the chat template {fault} the {name}; {shown} is what it makes of a chat; {remedy}"
            )
    places = [text.index(part) for part in used.values()]
    if places != sorted(places):
        raise StudyError(
            f"{where}: the chat template reorders {' and '.join(used)}; {shown} is what it makes of a chat"
        )
