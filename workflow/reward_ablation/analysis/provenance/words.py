"""The provenance of a study's runs in words."""

from __future__ import annotations

import pandas as pd

#: Quantities that a sentence names also where all runs agree. The other quantities are in the table.
ALWAYS_NAMED = ["code", "python", "torch", "transformers", "trl", "machine", "GPUs"]

#: Most arms that a sentence names; it counts the rest.
MOST_ARMS = 4


def sentence(table: pd.DataFrame) -> str:
    """The quantities that all runs share; where runs differ, the differences come first."""
    texts = []
    for quantity, rows in table[table["mixed"]].groupby("quantity", sort=False):
        parts = [
            f"{value} ({_count(runs, 'run')}: {_few(arms)})"
            for value, runs, arms in zip(rows["value"], rows["runs"], rows["arms"], strict=True)
        ]
        texts.append(f"{quantity} " + ", ".join(parts))
    same = table[~table["mixed"]].set_index("quantity")["value"]
    common = ", ".join(_named(name, same[name]) for name in ALWAYS_NAMED if name in same.index)
    if not texts:
        runs = int(table["runs"].max())
        return f"{'one run' if runs == 1 else f'the same for all {runs} runs'}: {common}"
    return f"mixed: {'; '.join(texts)}" + (f". The same for all: {common}" if common else "")


def _named(quantity: str, value: str) -> str:
    if quantity == "GPUs" and value == "none":
        return "no GPU"
    return value if quantity in ("machine", "GPUs") else f"{quantity} {value}"


def _few(arms: str) -> str:
    names = arms.split(", ")
    more = len(names) - MOST_ARMS
    return arms if more <= 0 else f"{', '.join(names[:MOST_ARMS])} and {more} more"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
