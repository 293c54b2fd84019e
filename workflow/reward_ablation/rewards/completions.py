"""The text of completions, in either of the two forms that TRL passes.

TRL passes messages where prompts are chats, else texts. Components and the table of rollouts take the text from here,
and users' own reward functions may too (docs/api.md).
"""

from __future__ import annotations

from collections.abc import Sequence

Message = dict[str, str]
Completion = str | list[Message]


def completion_texts(completions: Sequence[Completion]) -> list[str]:
    """Text of each completion: a string as it is, the messages of a conversation joined by newlines."""
    return [
        completion if isinstance(completion, str) else "\n".join(message["content"] for message in completion)
        for completion in completions
    ]
