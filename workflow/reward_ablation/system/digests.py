"""Files against the digests that were recorded when they were made."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import sha256


def check_files(folder: Path, recorded: Mapping[str, str], names: Iterable[str], record: str, remedy: str) -> None:
    """Refuse files that are missing, or not what they were when they were recorded.

    Parameters
    ----------
    folder : Path
    recorded : mapping of str to str
        SHA-256 by path below the folder.
    names : iterable of str
        The files to check.
    record : str
        Name of the file that records the digests.
    remedy : str
        What to do about a file that is not right.

    Raises
    ------
    StudyError
    """
    for name in names:
        path = folder / name
        if name not in recorded:
            raise StudyError(f"{path}: {record} does not list it; {remedy}")
        try:
            digest = sha256(path)
        except FileNotFoundError:
            raise StudyError(f"{path}: there is no such file; {remedy}") from None
        if digest != recorded[name]:
            raise StudyError(
                f"{path}: truncated or changed since it was written: its SHA-256 starts with {digest[:8]}, in {record} "
                f"with {recorded[name][:8]}; {remedy}"
            )


def read_object(path: Path, remedy: str) -> dict[str, Any]:
    """The JSON object of a record.

    Raises
    ------
    StudyError
        It is missing, or truncated or changed.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StudyError(f"{path}: there is no such file; {remedy}") from None
    except ValueError:  # bytes that are no text, too
        raise StudyError(f"{path}: truncated or changed: it is not JSON; {remedy}") from None
    if not isinstance(record, dict):
        raise StudyError(f"{path}: holds no JSON object; {remedy}")
    return record
