"""Command that prepares one set of problems, for training or for evaluation.

The rules `prepare_evaluation`, `prepare_train` and `prepare_sft` run it. It limits the memory, because a small file may
hold many gigabytes, and records the code by which a start sees whether to prepare the set again.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from reward_ablation.config.config_errors import read_spec, validate_spec
from reward_ablation.data.problems import PrepareSpec, prepare
from reward_ablation.study.core_digest import deciding_digest
from reward_ablation.system.errors import one_line_errors, storage_errors
from reward_ablation.system.files import sha256, write_json
from reward_ablation.system.limits import memory_limit

#: Most bytes of memory for one set; on a smaller machine three quarters of its memory. A Parquet file of 1 kB may hold
#: 8 GB. A million problems with solutions take 4 GB.
MOST_MEMORY = 16 * 2**30


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line and prepare."""
    parser = argparse.ArgumentParser(prog="python -m reward_ablation.data", description=__doc__)
    parser.add_argument(
        "--spec",
        required=True,
        help='JSON: {"source": as in the config, "duplicates": "refuse" or "drop", "overlap": "refuse" or "drop"}',
    )
    parser.add_argument("--name", required=True, help="what messages call the set")
    parser.add_argument("--output", required=True, type=Path, help="Parquet file; the counts go beside it as .json")
    parser.add_argument(
        "--apart-from",
        nargs="+",
        action="extend",
        default=[],
        type=Path,
        metavar="PARQUET",
        help="prepared evaluation sets that this set must share no question with",
    )
    args = parser.parse_args(arguments)
    memory = min(MOST_MEMORY, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 3 // 4)
    remedy = "; leave out the columns and rows that the study does not use"
    with storage_errors(args.output), memory_limit(memory, f"{args.name}: the data", remedy):
        making = {"code": deciding_digest("data"), "apart_from": sorted(map(sha256, args.apart_from))}
        prepare(validate_spec(PrepareSpec, read_spec(args.spec)), args.name, args.output, args.apart_from)
        record = args.output.with_suffix(".json")
        write_json({**json.loads(record.read_bytes()), **making}, record)


if __name__ == "__main__":
    with one_line_errors():
        main()
