"""Prompts of questions, for training and evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from jinja2 import TemplateError

from reward_ablation.system.errors import StudyError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Messages = list[dict[str, str]]


class Prompt(Protocol):
    """How a question becomes a prompt: the study's section `prompt`."""

    @property
    def system(self) -> str | None: ...

    @property
    def template(self) -> str: ...

    @property
    def chat(self) -> bool: ...


def render_prompt(question: str, prompt: Prompt) -> str | Messages:
    """Prompt of one question, in the form of TRL's `prompt` column: messages if `prompt.chat` is set, else plain text.

    The question replaces {question} in the template. Other braces (\\boxed{}) stay as they are.
    """
    text = prompt.template.replace("{question}", question)
    if not prompt.chat:
        return text
    system = [] if prompt.system is None else [{"role": "system", "content": prompt.system}]
    return [*system, {"role": "user", "content": text}]


def tokenize_prompts(
    prompts: Sequence[str | Messages],
    tokenizer: PreTrainedTokenizerBase,
    chat_template_kwargs: dict[str, Any] | None = None,
) -> list[list[int]]:
    """Token ids of prompts, without padding, made as TRL's GRPOTrainer makes them.

    Messages go through the tokenizer's chat template, with the opening of the assistant's turn. Plain text gets the
    tokenizer's own special tokens, if there are any.

    Parameters
    ----------
    prompts : sequence
        Results of `render_prompt`: all are messages, or all are plain text.
    tokenizer : PreTrainedTokenizerBase
        The model's tokenizer.
    chat_template_kwargs : dict, optional
        Further variables of the chat template, as in TRL: `{"enable_thinking": False}`.

    Raises
    ------
    StudyError
        The prompts are messages and the tokenizer has no chat template, the template refuses the prompts, or a prompt
        has no token.
    """
    if not prompts:
        return []
    batch: Any = list(prompts)
    encoded: Any
    if isinstance(prompts[0], list):
        if tokenizer.chat_template is None:
            raise StudyError("prompt.chat: the model's tokenizer has no chat template; set chat: false")
        variables = chat_template_kwargs or {}
        try:
            encoded = tokenizer.apply_chat_template(
                batch, add_generation_prompt=True, tokenize=True, return_dict=True, **variables
            )
        except (TypeError, ValueError, TemplateError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise StudyError(
                f"prompt.chat: the tokenizer's chat template refuses the prompts ({reason}); change prompt, or "
                "training.chat_template_kwargs"
            ) from error
    else:
        encoded = tokenizer(text=batch)
    if not all(encoded["input_ids"]):
        raise StudyError("prompt.template: a question became an empty prompt; add some text to the template")
    return encoded["input_ids"]
