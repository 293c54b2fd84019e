"""Text of the examples of answers. A model's output is hostile: characters that act instead of showing are escaped."""

from __future__ import annotations

import unicodedata

import pandas as pd

#: Problems at the start of a data set that are shown, whatever the answers to them.
FIRST = 2

#: The rule in words, for captions.
RULE = (
    f"the first {FIRST} problems of the data set; the first that the base model got wrong and the baseline arm right "
    "(gained); the first that it got right and the baseline arm wrong (lost)"
)


def kinds_missing(table: pd.DataFrame) -> str:
    """A sentence on the kinds of problems that the table `examples` lacks; empty if it has all."""
    lines = []
    for dataset, rows in table.groupby("dataset", sort=False):
        if missing := [kind for kind in ("gained", "lost") if kind not in set(rows["chosen"])]:
            lines.append(f"{dataset} has no further problem that the baseline arm {' or '.join(missing)}")
    return f" {'; '.join(lines)}." if lines else ""


def printable(text: str) -> str:
    """The text with control, format and unassigned characters as escapes, since these act instead of showing.

    Line breaks stay. Format characters include those that turn the direction of text, or have no width.

    >>> printable("a" + chr(0x202E) + "b" + chr(27) + "[0m")
    'a\\\\u202eb\\\\x1b[0m'
    """
    return "".join(
        character if character == "\n" or unicodedata.category(character) not in _UNSEEN else _escape(character)
        for character in text.replace("\r\n", "\n").replace("\t", "    ")
    )


#: Unicode's categories: control, format, private use, surrogate, unassigned; line and paragraph separators.
_UNSEEN = {"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"}


def _escape(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def cut(text: str, most: int) -> str:
    """The beginning of a text, and how many characters are left out.

    >>> cut("a sentence", 4)
    'a se… (6 more characters)'
    """
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} more characters)"


def verdict(row: pd.Series) -> str:
    """What the graders said of an answer, in words."""
    judged = [] if pd.isna(row.get("scores")) else [row["scores"]]
    if pd.notna(row["correct_strict"]):
        lenient = "right, but not in the format" if row["correct_lenient"] else "wrong"
        judged.insert(0, "right" if row["correct_strict"] else lenient)
    tokens = "1 token" if row["tokens"] == 1 else f"{row['tokens']} tokens"
    return f"{', '.join(judged)}, {tokens}{', cut off by the limit' if row['truncated'] else ''}"
