"""Prompts of questions, as texts or messages and as tokens.

The supervised start, training and evaluation make their prompts here, and so do the checks before a job. A question
thus has the same tokens in all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from jinja2 import TemplateError

from reward_ablation.system.errors import StudyError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from reward_ablation.config.sections.data import Prompt

Messages = list[dict[str, str]]

#: The date that Llama 3.2's own template falls back to: the default of the config's `prompt.date`.
DATE = "2024-07-26"


def render_prompt(question: str, prompt: Prompt) -> str | Messages:
    """Prompt of one question as in TRL's `prompt` column: messages if `prompt.chat`, else text. Other braces stay."""
    text = prompt.template.replace("{question}", question)
    if not prompt.chat:
        return text
    system = [] if prompt.system is None else [{"role": "system", "content": prompt.system}]
    return [*system, {"role": "user", "content": text}]


def template_variables(date: str, chat_template_kwargs: dict[str, Any] | None = None) -> dict[str, Any]:
    """Variables of a chat template: the study's, and a `strftime_now` by which a prompt is the same on each day."""
    return {**(chat_template_kwargs or {}), "strftime_now": datetime.fromisoformat(date).strftime}


def tokenize_prompts(
    prompts: Sequence[str | Messages],
    tokenizer: PreTrainedTokenizerBase,
    date: str,
    chat_template_kwargs: dict[str, Any] | None = None,
    ids: Sequence[str] = (),
) -> list[list[int]]:
    """Token ids of prompts of `render_prompt`, all messages or all plain text, without padding; errors name `ids`."""
    # Messages go through the tokenizer's chat template, with the opening of the assistant's turn. Plain text gets the
    # special tokens that the tokenizer puts before a text, but none that it appends, because a completion follows.
    # `date` is what a template gets as today; `chat_template_kwargs` are further variables, as in TRL.
    if not prompts:
        return []
    batch: Any = list(prompts)
    tokens: list[list[int]]
    if isinstance(prompts[0], list):
        if tokenizer.chat_template is None:
            raise StudyError("prompt.chat: the model's tokenizer has no chat template; set chat: false")
        variables = template_variables(date, chat_template_kwargs)
        try:
            encoded: Any = tokenizer.apply_chat_template(
                batch, add_generation_prompt=True, tokenize=True, return_dict=True, **variables
            )
        except (TypeError, ValueError, ArithmeticError, TemplateError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise StudyError(
                f"prompt.chat: the tokenizer's chat template refuses the prompts ({reason}); change prompt, or "
                "training.chat_template_kwargs"
            ) from error
        tokens = encoded["input_ids"]
    else:
        tokens = _plain_tokens(batch, tokenizer)
    if not all(tokens):
        place = tokens.index([])
        raise StudyError(
            f"prompt.template: the question {ids[place] if ids else repr(prompts[place])} became an empty prompt; add "
            "some text to the template, or take the question out"
        )
    return tokens


def _plain_tokens(texts: list[str], tokenizer: PreTrainedTokenizerBase) -> list[list[int]]:
    """Tokens of plain prompts: what the tokenizer puts before each text, which must not have it too, and the text."""
    before, tokens, _ = split_special(texts, tokenizer)
    for front, text in zip(before, tokens, strict=True):
        if front and text[:1] == front[-1:]:
            raise StudyError(
                f"prompt.template: a prompt begins with {tokenizer.convert_ids_to_tokens(text[0])!r}, which the "
                "tokenizer puts before each prompt as well; take it out of the template"
            )
    return [front + text for front, text in zip(before, tokens, strict=True)]


def split_special(
    texts: list[str], tokenizer: PreTrainedTokenizerBase
) -> tuple[list[list[int]], list[list[int]], list[list[int]]]:
    """Tokens of plain texts in three parts: what the tokenizer puts before each text, the text, and what it appends."""
    parts: tuple[list[list[int]], list[list[int]], list[list[int]]] = ([], [], [])
    bare: Any = tokenizer(text=texts, add_special_tokens=False)["input_ids"]
    whole: Any = tokenizer(text=texts)["input_ids"]
    for text, tokens in zip(bare, whole, strict=True):
        starts = range(len(tokens) - len(text) + 1)
        found = next((start for start in starts if tokens[start : start + len(text)] == text), None)
        # A tokenizer that changes the text itself is taken as it is.
        start, end = (0, len(tokens)) if found is None else (found, found + len(text))
        for part, ids in zip(parts, (tokens[:start], tokens[start:end], tokens[end:]), strict=True):
            part.append(ids)
    return parts
