"""Prepare a set of problems for training or evaluation."""

from __future__ import annotations

import argparse
from pathlib import Path

from reward_ablation.config.config_errors import read_spec, validate_spec
from reward_ablation.data.problems import PrepareSpec, prepare
from reward_ablation.system.errors import one_line_errors, storage_errors


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
    with storage_errors(args.output):
        prepare(parse_spec(args.spec), args.name, args.output, args.apart_from)


def parse_spec(text: str) -> PrepareSpec:
    """The spec of this stage; a StudyError if the text is anything else."""
    return validate_spec(PrepareSpec, read_spec(text))


if __name__ == "__main__":
    with one_line_errors():
        main()
