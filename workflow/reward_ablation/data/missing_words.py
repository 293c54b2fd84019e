"""Words that pandas and spreadsheets write where a value is missing."""

from __future__ import annotations

from typing import Any

#: pandas' own words (the default `na_values` of `read_csv`), its words for a time and for infinity, the errors of
#: spreadsheets, and dashes. Case counts: `none`, `Infinity` and `Na` are what a person writes as an answer.
MISSING_WORDS = frozenset(
    (
        *("nan", "NaN", "-nan", "-NaN", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN", "inf", "-inf"),
        *("<NA>", "NA", "N/A", "n/a", "NaT", "None", "null", "NULL"),
        *("#N/A", "#N/A N/A", "#NA", "#VALUE!", "#REF!", "#DIV/0!", "#NUM!", "#NAME?", "#NULL!"),
        *("-", "--", "\u2013", "\u2014"),
    )
)


def missing_word(value: Any) -> str | None:
    """The word for a missing value that a text, or an infinite number, consists of; None for any other value."""
    text = str(value).strip() if isinstance(value, str | float) else ""
    # NaN as a number is no word: every column takes it as missing.
    return text if text in MISSING_WORDS and value == value else None
