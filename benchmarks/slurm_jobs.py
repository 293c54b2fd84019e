"""The cost of a run on a Slurm cluster beside its training: this workflow's executor against Snakemake's own.

    python benchmarks/slurm_jobs.py --json FILE [--runs 50]

Both executors train the same number of runs by a trainer that does nothing, on the same test cluster
(tests/slurm/cluster.py) of two slots. They take two turns, each with half of the runs. Measured are the CPU time of the
machine per run, and the time for which a slot is idle between two runs. Needs Slurm, and a machine that does nothing
else.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import yaml

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from slurm.cluster import Cluster  # noqa: E402
from slurm.studies import STUDY  # noqa: E402
from workflow.edits import copy_of_the_code  # noqa: E402

TURNS = 2

#: Replaces training/__main__.py: writes only the file that Snakemake waits for.
TRAINER = """
import sys
from pathlib import Path

folder = Path(sys.argv[sys.argv.index("--run-dir") + 1])
(folder / "run.json").write_text("{}")
"""

#: The Snakefile for Snakemake's own executor.
BARE = """
rule all:
    input: expand("runs/{{run}}.json", run=range({runs}))

rule train:
    output: "runs/{{run}}.json"
    resources: gpu=1, mem_mb=1000, runtime=30, nodes=1
    shell: "echo '{{{{}}}}' > {{output}}"
"""

#: Snakemake's own executor starts `srun` without SLURM_CONF, the path of the configuration: this script sets it.
SRUN = '#!/bin/sh\nexport SLURM_CONF={conf}\nexec {srun} "$@"\n'


def ours(folder: Path, runs: int) -> list[str]:
    """Write a study of `runs` runs for this workflow's executor. Returns the command that trains them."""
    code = copy_of_the_code(folder / "code")
    (code / "workflow" / "reward_ablation" / "training" / "__main__.py").write_text(TRAINER)
    config = STUDY | {"seeds": list(range(runs)), "launch": {"gpus": 1}, "components": {**STUDY["components"]}}
    del config["components"]["held"]
    config["arms"] = {"design": "list", "arms": {"one": {"weights": {"length": 1}}}}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    ask = {"hours": 0.5, "mem_gb": 1, "cpus": 1}
    (folder / "site.yaml").write_text(yaml.safe_dump({"partition": "gpu", "train": ask, "evaluate": ask}))
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(code / "Snakefile"), "--configfile", "config.yaml"]
    command += ["--workflow-profile", str(code / "profiles" / "default"), "--profile", str(code / "profiles" / "slurm")]
    return [*command, "--slurm-study-site", "site.yaml", "--slurm-study-poll", "5", "--until", "train"]


def theirs(folder: Path, runs: int) -> list[str]:
    """Write a Snakefile of `runs` runs for Snakemake's own executor. Returns the command that makes them."""
    (folder / "Snakefile").write_text(BARE.format(runs=runs))
    command = [sys.executable, "-m", "snakemake", "--executor", "slurm", "--jobs", "100", "--slurm-status-command"]
    return [*command, "squeue", "--slurm-init-seconds-before-status-checks", "5"]


def measured(cluster: Cluster, folder: Path, command: list[str], runs: int) -> dict[str, float]:
    """CPU seconds of the machine per run, idle seconds of a slot between two runs, and mean seconds of a job."""
    before = {job.id for job in cluster.jobs()}
    environment = cluster.environment | {"PATH": f"{folder.parent / 'bin'}:{os.environ['PATH']}"}
    environment["PYTHONPATH"] = str(folder / "code" / "workflow")
    spent = _cpu_seconds()
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    spent = _cpu_seconds() - spent
    if result.returncode:
        sys.exit(f"error: {' '.join(command)}\n{result.stdout}{result.stderr}")
    times = [
        line.split()
        for line in cluster.run("squeue", "--states=all", "--noheader", "--format=%i %N %S %e").splitlines()
    ]
    of_node: dict[str, list[tuple[float, float]]] = {}
    for number, node, start, end in times:
        if number not in before:
            of_node.setdefault(node, []).append((_seconds(start), _seconds(end)))
    jobs = [job for node in of_node.values() for job in node]
    if len(jobs) != runs:
        sys.exit(f"error: {len(jobs)} jobs instead of {runs}")
    idle = [later[0] - earlier[1] for node in of_node.values() for earlier, later in pairwise(sorted(node))]
    return {
        "cpu": spent / runs,
        "idle": statistics.mean(idle),
        "wall": statistics.mean(end - start for start, end in jobs),
    }


def _cpu_seconds() -> float:
    times = psutil.cpu_times()
    return times.user + times.system


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def floor(code: str) -> float:
    """CPU seconds of a Python process that runs `code`."""
    before = os.times()
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def measure(runs: int, folder: Path) -> dict[str, Any]:
    """Costs of both executors in turns, and CPU seconds of imports and of `snakemake --version`."""
    turns: dict[str, list[dict[str, float]]] = {"ours": [], "theirs": []}
    with Cluster(folder / "cluster", gpus=1) as cluster:
        (folder / "bin").mkdir()
        srun = cluster.run("sh", "-c", "command -v srun").strip()
        (folder / "bin" / "srun").write_text(SRUN.format(conf=cluster.environment["SLURM_CONF"], srun=srun))
        (folder / "bin" / "srun").chmod(0o755)
        for turn in range(TURNS):
            for name, make in (("ours", ours), ("theirs", theirs)):
                place = folder / f"{name}{turn}"
                place.mkdir()
                command = make(place, runs // TURNS)
                turns[name].append(measured(cluster, place, command, runs // TURNS))
                print(f"{name}: {turns[name][-1]}", file=sys.stderr, flush=True)
    return {
        "runs": runs // TURNS * TURNS,
        "turns": turns,
        "imports": floor("import torch, trl.trainer.grpo_trainer"),
        "snakemake": floor("import runpy, sys; sys.argv = ['snakemake', '--version']; runpy.run_module('snakemake')"),
    }


def table(result: dict[str, Any]) -> str:
    """The result as Markdown."""

    def mean(name: str, what: str) -> float:
        return statistics.mean(turn[what] for turn in result["turns"][name])

    def row(title: str, what: str) -> str:
        one, other = mean("ours", what), mean("theirs", what)
        return f"| {title} | {one:.1f} | {other:.1f} | {f'{one / other:.2f}' if other >= 1 else '–'} |"

    rows = [
        row(title, what)
        for what, title in (
            ("cpu", "CPU seconds per run"),
            ("wall", "seconds from a job's start to its end"),
            ("idle", "idle seconds of a slot between two runs (Slurm reports whole seconds)"),
        )
    ]
    return "\n".join(
        [
            "| | this workflow's executor | Snakemake's own | ratio |",
            "| --- | --- | --- | --- |",
            *rows,
            "",
            f"{result['runs']} runs with each executor, by a trainer that does nothing, on two slots of a test "
            f"cluster. For comparison, importing torch and TRL takes {result['imports']:.1f} CPU seconds, and "
            f"`snakemake --version` {result['snakemake']:.1f}.",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=50)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = measure(arguments.runs, Path(folder))
    arguments.json.write_text(json.dumps(result, indent=2) + "\n")
    print(table(result), file=sys.stderr)


if __name__ == "__main__":
    main()
