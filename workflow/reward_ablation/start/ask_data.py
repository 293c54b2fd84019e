"""Prepare sets of problems for trial, as the jobs will, in a process whose memory is limited.

Each line on stdin is a JSON object: `spec` is that of the preparation, `name` names the set in messages, and `output`
is a Parquet file in a temporary folder. The set is held apart from those of the prepared sets `apart_from` that exist.
For each line, a JSON object is printed: `error` is a line or null, and `notes` are lines for the user.

python -m reward_ablation.start.ask_data
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from reward_ablation.data.problems import PrepareSpec, prepare
from reward_ablation.start.data_files import check_rows
from reward_ablation.system.errors import StudyError, one_line_errors
from reward_ablation.system.limits import memory_limit

#: Most bytes of memory. The jobs take more, so that a set which needs more is left to them.
MEMORY = 4 * 2**30
_LATER = "; the job that prepares the set checks the rest"


def tried(asked: dict[str, Any]) -> dict[str, Any]:
    """What is printed for one line."""
    printed, apart = io.StringIO(), [path for path in map(Path, asked["apart_from"]) if path.is_file()]
    try:
        with redirect_stdout(printed), memory_limit(MEMORY, f"{asked['name']}: the data", _LATER):
            spec = PrepareSpec.model_validate_json(asked["spec"])
            _prepare(spec, asked["name"], Path(asked["output"]), apart)
    except StudyError as error:
        later = str(error).endswith(_LATER)
        return {"error": None if later else str(error), "notes": [str(error)] if later else []}
    return {"error": None, "notes": printed.getvalue().splitlines()}


def _prepare(spec: PrepareSpec, name: str, output: Path, apart: list[Path]) -> None:
    try:
        prepare(spec, name, output, apart)
    except StudyError:
        if path := getattr(spec.source, "path", None):
            check_rows(spec, path)  # names the row
        raise


@one_line_errors()
def main() -> None:
    argparse.ArgumentParser(prog="python -m reward_ablation.start.ask_data").parse_args()
    for line in sys.stdin:
        print(json.dumps(tried(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
