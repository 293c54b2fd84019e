"""Check the bytes of a prepared set against the digest in the record beside it."""

from __future__ import annotations

from pathlib import Path

from reward_ablation.system.digests import check_files, read_object


def verify_problems(path: Path) -> None:
    """Refuse a prepared set that is truncated or changed. A set without a record is not the workflow's, and passes."""
    record = path.with_suffix(".json")
    if record.is_file():
        remedy = f"delete {path} and run the workflow again, which prepares it again"
        recorded = {path.name: read_object(record, remedy).get("sha256", "")}
        check_files(path.parent, recorded, [path.name], record.name, remedy)
