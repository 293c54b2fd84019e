"""The demo's runs and answers by this workflow, beside a script over TRL that does the same in one process.

    python benchmarks/beside_script.py --json FILE

The script (workers/plain_script.py) imports nothing of this library. It has the same model, data, settings and rewards,
and answers the same problems with the same models, with and without gradients of the rewards. Both take one thread.
Counted are CPU seconds of all processes, without the making of the demo's model and data. The workflow also measures
gradients at each step, writes rollouts, checkpoints and records, grades by three graders, and starts two processes a
run. The tables, figures and the report are not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "benchmarks" / "workers" / "plain_script.py"
CONFIG = ROOT / "config" / "demo.yaml"


def cpu_seconds(*command: str) -> tuple[float, str]:
    """CPU seconds of a command with its processes, and what it printed."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def workflow(folder: Path, *targets: str) -> float:
    """CPU seconds of the demo up to some rules, in a folder of its own."""
    where = ("--snakefile", str(ROOT / "Snakefile"), "--directory", str(folder), "--configfile", str(CONFIG))
    snakemake = str(Path(sys.executable).parent / "snakemake")
    return cpu_seconds(snakemake, *where, "--cores", "1", "--quiet", "--until", *targets)[0]


def measure(folder: Path) -> dict[str, Any]:
    """CPU seconds of the workflow and of the script without and with gradients."""
    workflow(folder, "fetch", "prepare_train", "prepare_evaluation")
    result: dict[str, Any] = {"workflow": workflow(folder, "evaluate_base", "evaluate")}
    results = folder / "results" / "demo"
    for name, options in (("script", []), ("script with gradients", ["--gradients"])):
        command = [sys.executable, str(SCRIPT), str(results / "study.json"), str(results), str(folder / name), *options]
        seconds, printed = cpu_seconds(*command)
        result[name] = {"all": seconds, **json.loads(printed.strip().splitlines()[-1])}
    return result


def table(result: dict[str, Any]) -> str:
    """Markdown: CPU seconds and ratios."""
    lines = ["| | CPU s | imports | training | evaluation | workflow over it |", "| --- " * 6 + "|"]
    for name in ("script", "script with gradients"):
        of = result[name]
        parts = " | ".join(f"{of[part]:.0f}" for part in ("all", "imports", "training", "evaluation"))
        lines.append(f"| {name} | {parts} | {result['workflow'] / of['all']:.2f} |")
    lines.append(f"| this workflow, with gradients | {result['workflow']:.0f} | | | | |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = measure(Path(folder))
    options.json.write_text(json.dumps(result))
    print(table(result))


if __name__ == "__main__":
    main()
