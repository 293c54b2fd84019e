"""Shares of the parts of Snakemake in its CPU time, by samples of the stack.

    python benchmarks/workers/planning_parts.py FILE ARGUMENT...

Runs Snakemake with the arguments in this process. A CPU timer interrupts the process. The sample counts for the first
part in `PARTS` that has a function on the stack. The shares go to FILE as JSON.
"""

from __future__ import annotations

import json
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

#: CPU seconds between two samples.
INTERVAL = 0.005
#: Parts of Snakemake's work, with their functions.
PARTS = {
    "imports": {"_find_and_load", "SourceLoader.get_code"},
    "config file": {"load_configfile"},
    "code digests": {"code_digest", "module_digests"},
    "config to runs": {"resolve"},
    "other Snakefile": {"Workflow.include"},
    "params": {"Rule.expand_params"},
    "inputs": {"Rule.expand_input"},
    "outputs and logs": {"Rule.expand_output", "Rule.expand_log", "Rule.expand_benchmark"},
    "other jobs": {"Workflow.execute"},
}


def part_of(frame: FrameType | None) -> str:
    """The part to which a stack belongs."""
    functions = set()
    while frame is not None:
        functions.add(frame.f_code.co_qualname)
        frame = frame.f_back
    return next((part for part, names in PARTS.items() if names & functions), "other")


def main() -> None:
    file, *arguments = sys.argv[1:]
    samples: Counter[str] = Counter()
    signal.signal(signal.SIGPROF, lambda number, frame: samples.update([part_of(frame)]))
    signal.setitimer(signal.ITIMER_PROF, INTERVAL, INTERVAL)
    from snakemake.cli import main as snakemake

    sys.argv = ["snakemake", *arguments]
    status: object = 0
    try:
        snakemake()
    except SystemExit as end:
        status = end.code
    signal.setitimer(signal.ITIMER_PROF, 0)
    shares = {part: samples[part] / samples.total() for part in (*PARTS, "other")}
    Path(file).write_text(json.dumps(shares))
    sys.exit(status)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
