"""What could be pruned, as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reward_ablation.start.prune import Leftover
from reward_ablation.study.study import Study

#: Parts of a path that are told, by its first one: the seeds of an arm are one line, and so are the logs of a stage.
_DEPTHS = {"runs": 2, "evaluation": 3, "logs": 2, "benchmarks": 2}

#: Lines of one list.
MOST = 60


def prune_text(study: Study, leftovers: Sequence[Leftover], deleted: bool) -> str:
    """A line for each folder and kind, with its size, and how to go on.

    Parameters
    ----------
    study : Study
    leftovers : sequence of Leftover
    deleted : bool
        They are being deleted, not only listed.
    """
    name = study.config.name
    if not leftovers:
        return f"study {name}: nothing in {study.config.root} that it does not need"
    grouped: dict[tuple[Path, str], list[int]] = {}
    for leftover in leftovers:
        path = leftover.path.relative_to(study.root / study.config.root)
        shown = Path(study.config.root, *path.parts[: _DEPTHS.get(path.parts[0])])
        grouped.setdefault((shown, leftover.what), []).append(leftover.size())
    lines = [f"study {name}: deleted" if deleted else f"study {name} does not need:", ""]
    for (path, what), sizes in list(grouped.items())[:MOST]:
        count = f"{len(sizes)} × " if len(sizes) > 1 else ""
        lines.append(f"{size_text(sum(sizes)):>9}  {path}: {count}{what}")
    if len(grouped) > MOST:
        lines.append(f"{'':9}  and {len(grouped) - MOST} more lines")
    total = size_text(sum(map(sum, grouped.values())))
    return "\n".join([*lines, "", total + (" in all" if deleted else " in all; `snakemake prune delete` deletes it")])


def size_text(size: float) -> str:
    """`512 B`, `3.1 MB`, in powers of 1000."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 9.95 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
