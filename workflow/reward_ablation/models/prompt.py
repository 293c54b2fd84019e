"""Checks that a model's prompts have what the study writes, the same each time.

The rule `fetch` calls them for the base model, and each run for its own prompts before it trains. They need the study's
section `prompt`; `check` looks at a model alone, and takes from here what it checks of a reward model's template.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from reward_ablation.config.sections.data import Prompt
from reward_ablation.sampling.prompts import render_prompt, split_special, template_variables, tokenize_prompts
from reward_ablation.sampling.tokenizer import load_tokenizer
from reward_ablation.system.errors import StudyError

#: Words that no template has of its own.
SYSTEM, QUESTION, COMPLETION = "systemzyx", "questionzyx", "completionzyx"
#: Most characters of a rendered text in a message.
_SHOWN = 600
#: Names by which Jinja draws at random.
_RANDOM = re.compile(r"\|\s*(random)\b|\b(lipsum)\b")


def check_prompt(folder: Path, where: str, written: Prompt, variables: dict[str, Any]) -> None:
    """Refuse a model whose prompts lack the system text or the question, begin wrongly, or change by chance."""
    tokenizer: Any = load_tokenizer(folder, where)
    system = None if written.system is None else SYSTEM
    prompt = Prompt(system=system, template=written.template, chat=written.chat, date=written.date)
    rendered = render_prompt(QUESTION, prompt)
    tokenize_prompts([rendered], tokenizer, written.date, variables)
    if isinstance(rendered, list):
        how = {"tokenize": False, "add_generation_prompt": True, **template_variables(written.date, variables)}
        render = partial(tokenizer.apply_chat_template, rendered, **how)
        parts = {"system text (prompt.system)": system, "question": QUESTION}
        check_repeatable(render, tokenizer.get_chat_template(), where)
        check_rendered(render(), parts, where)


def tell_prompt_end(folder: Path, where: str, written: Prompt, variables: dict[str, Any]) -> None:
    """Print that a chat ends in the end token or in an open <think>, or what a tokenizer appends to plain prompts."""
    # Some models were trained on chats that end in the end token. Where a prompt opens
    # <think>, a completion that never closes it is graded as an answer, because the completion alone does not show it.
    tokenizer: Any = load_tokenizer(folder, where)
    if written.chat:
        chat, how = render_prompt(QUESTION, written), template_variables(written.date, variables)
        text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True, **how)
        if tokenizer.eos_token and text.rstrip().endswith(tokenizer.eos_token):
            print(
                f"warning: {where}: the chat template ends the prompt with the end token {tokenizer.eos_token!r} and "
                "does not open the assistant's turn; the model may end at once, or begin with the turn's marks",
                flush=True,
            )
        if text.rfind("<think>") > text.rfind("</think>"):
            print(
                f"warning: {where}: the chat template opens <think> in the prompt; a reasoning that the length limit "
                "cuts off is graded like an answer, so give completions enough tokens for </think>",
                flush=True,
            )
        return
    _, _, (appended,) = split_special([QUESTION], tokenizer)
    if appended:
        names = ", ".join(map(repr, tokenizer.convert_ids_to_tokens(appended)))
        print(f"{where}: the tokenizer appends {names} to a text; prompts are used without it", flush=True)


def check_repeatable(render: Callable[[], str], template: str, where: str) -> None:
    """Refuse a chat template that draws at random, because a run could not be repeated."""
    named = _RANDOM.search(template)
    if named or render() != render():
        what = f"uses Jinja's {named[1] or named[2]}" if named else "makes another text of the same chat each time"
        raise StudyError(f"{where}: the chat template {what}, so that prompts change by chance; take another template")


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
