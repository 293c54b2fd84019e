"""The cost of a dry run: this workflow against a bare Snakefile with as many jobs of the same shape.

    python benchmarks/planning.py --json FILE [--arms 1000] [--seeds 5] [--repeats 5]

Measures CPU time (user and system), wall time and peak memory of `snakemake -n --quiet` for both, and for a
Snakefile without a job (start-up alone). The three take turns, so that a busy machine slows all three alike. Ratios are
taken within a turn. Medians and ranges over turns are reported, and the machine's load.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
GOAL = 1.5

#: Edges as in the workflow, and nothing else: no config, params, logs, benchmarks or reports.
BARE = """
RUNS = [f"arm{{arm}}/seed{{seed}}" for arm in range({arms}) for seed in range({seeds})]

rule all:
    input:
        expand("runs/{{run}}/run.json", run=RUNS),
        expand("evaluation/{{run}}.parquet", run=RUNS),
        expand("figures/{{number}}.pdf", number=range({figures})),

rule fetch:
    output: "model.json"
    shell: "touch {{output}}"

rule prepare:
    output: "data/{{name}}.parquet"
    shell: "touch {{output}}"

rule train:
    input: "model.json", "data/train.parquet"
    output: "runs/{{run}}/run.json"
    shell: "touch {{output}}"

rule evaluate:
    input: "runs/{{run}}/run.json", "model.json", "data/test.parquet"
    output: "evaluation/{{run}}.parquet"
    shell: "touch {{output}}"

rule aggregate:
    input: expand("runs/{{run}}/run.json", run=RUNS), expand("evaluation/{{run}}.parquet", run=RUNS)
    output: "tables.csv"
    shell: "touch {{output}}"

rule figure:
    input: "tables.csv"
    output: "figures/{{number}}.pdf"
    shell: "touch {{output}}"
"""
#: Jobs of the bare Snakefile beside runs, evaluations and figures: all, fetch, prepare (2), aggregate.
BARE_OTHER_JOBS = 5


def study_config(arms: int, seeds: int) -> dict[str, Any]:
    """A study of many arms that needs no file: the demo's model and word problems."""
    return {
        "name": "planning",
        "results": "results",
        "seeds": list(range(seeds)),
        "model": {"source": "demo"},
        "data": {
            "train": {"source": "word_problems", "count": 64, "split": "train"},
            "evaluation": {"test": {"source": "word_problems", "count": 64, "split": "test"}},
        },
        "prompt": {"chat": False},
        "components": {
            "correctness": {"function": "correctness", "parameters": {"answer_format": "hash"}},
            "format": {"function": "answer_format", "parameters": {"format": "hash"}},
            "length": {"function": "token_length", "parameters": {"target": 20, "width": 20}},
        },
        "arms": {
            "design": "list",
            "arms": {
                # No two arms alike up to scale, or the workflow would rightly complain.
                f"arm{arm}": {"weights": {"correctness": 1.0, "format": 0.1 + arm / 1000, "length": 0.3}}
                for arm in range(arms)
            },
        },
        "training": {
            "max_steps": 2,
            "per_device_train_batch_size": 8,
            "num_generations": 4,
            "max_completion_length": 16,
        },
        "launch": {"gpus": 0},
        "evaluation": {"answer_format": "hash"},
    }


def snakemake(folder: Path, snakefile: Path, *options: str) -> list[str]:
    """Command of a dry run in a folder. It is started in the repository, so that all three use its default profile."""
    command = [sys.executable, "-m", "snakemake", "--snakefile", snakefile, "--directory", folder, "-n", *options]
    return list(map(str, command))


def count_jobs(command: list[str]) -> int:
    """Jobs that a dry run plans, from its table."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    total = re.search(r"^total\s+(\d+)", done.stdout + done.stderr, re.MULTILINE)
    if done.returncode != 0 or total is None:
        sys.exit(f"error: {' '.join(command)}: exit status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return int(total[1])


def measure(command: list[str]) -> dict[str, float]:
    """CPU seconds, wall seconds and peak memory (MB) of a command and of the processes that it waits for."""
    start = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"error: {' '.join(command)}: exit status {process.returncode}")
    wall = time.perf_counter() - start
    return {"cpu_seconds": usage.ru_utime + usage.ru_stime, "wall_seconds": wall, "peak_mb": usage.ru_maxrss / 1024}


def prepare_commands(folder: Path, arms: int, seeds: int) -> tuple[dict[str, list[str]], int]:
    """Dry runs by name, and the number of jobs that both the workflow and the bare Snakefile plan."""
    for name in ("workflow", "bare", "startup"):
        (folder / name).mkdir()
    config = folder / "config.yaml"
    config.write_text(yaml.safe_dump(study_config(arms, seeds), sort_keys=False))
    workflow = (folder / "workflow", ROOT / "Snakefile", "--configfile", str(config))
    jobs = count_jobs(snakemake(*workflow, "--quiet", "rules"))

    figures = jobs - 2 * arms * seeds - BARE_OTHER_JOBS
    bare = (folder / "bare", folder / "bare" / "Snakefile")
    bare[1].write_text(BARE.format(arms=arms, seeds=seeds, figures=figures))
    bare_jobs = count_jobs(snakemake(*bare, "--quiet", "rules"))
    if bare_jobs != jobs:
        sys.exit(f"error: the workflow plans {jobs} jobs, the bare Snakefile {bare_jobs}: nothing to compare")
    startup = (folder / "startup", folder / "startup" / "Snakefile")
    startup[1].write_text("rule all:\n    input: []\n")
    commands = {
        "workflow": snakemake(*workflow, "--quiet"),
        "bare": snakemake(*bare, "--quiet"),
        "startup": snakemake(*startup, "--quiet"),
    }
    return commands, jobs


def benchmark(arms: int, seeds: int, repeats: int) -> dict[str, Any]:
    """Medians over turns, and ratios of times within a turn."""
    with tempfile.TemporaryDirectory() as folder:
        commands, jobs = prepare_commands(Path(folder), arms, seeds)
        names = list(commands)
        turns: list[dict[str, dict[str, float]]] = []
        loads: list[float] = []
        for turn in range(repeats):
            order = names[turn % len(names) :] + names[: turn % len(names)]
            turns.append({name: measure(commands[name]) for name in order})
            loads.append(os.getloadavg()[0])
            seconds = ", ".join(f"{name} {turns[-1][name]['cpu_seconds']:.2f}" for name in names)
            print(f"turn {turn + 1}/{repeats}: CPU seconds: {seconds}", flush=True)
    medians = {
        name: {key: statistics.median(turn[name][key] for turn in turns) for key in turns[0][name]} for name in names
    }
    return {
        "arms": arms,
        "seeds": seeds,
        "jobs": jobs,
        "repeats": repeats,
        **medians,
        "ratio": ratio_of("cpu_seconds", turns),
        "wall_ratio": ratio_of("wall_seconds", turns),
        "load": {"lowest": min(loads), "highest": max(loads), "cores": os.cpu_count()},
        "goal": GOAL,
        "turns": turns,
    }


def ratio_of(key: str, turns: list[dict[str, dict[str, float]]]) -> dict[str, float]:
    """Median and range over turns of this workflow's time divided by the bare Snakefile's."""
    ratios = [turn["workflow"][key] / turn["bare"][key] for turn in turns]
    return {"median": statistics.median(ratios), "lowest": min(ratios), "highest": max(ratios)}


def table(result: dict[str, Any]) -> str:
    """The result as Markdown."""
    rows = ["| | CPU seconds | wall seconds | peak MB |", "| --- | --- | --- | --- |"]
    for name, label in (("startup", "start-up alone"), ("bare", "bare Snakefile"), ("workflow", "this workflow")):
        of = result[name]
        rows.append(f"| {label} | {of['cpu_seconds']:.1f} | {of['wall_seconds']:.1f} | {of['peak_mb']:.0f} |")
    cpu, wall = (
        f"{ratio['median']:.2f} ({ratio['lowest']:.2f} to {ratio['highest']:.2f})"
        for ratio in (result["ratio"], result["wall_ratio"])
    )
    load = result["load"]
    summary = (
        f"{result['jobs']:,} jobs, {result['repeats']} turns. Ratio of CPU times {cpu}, of wall times {wall}. "
        f"Goal: {result['goal']} in CPU time. Load average during the turns: {load['lowest']:.1f} to "
        f"{load['highest']:.1f}, on {load['cores']} cores."
    )
    return "\n".join([*rows, "", summary])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="where the numbers go")
    parser.add_argument("--arms", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=5, help="turns of workflow, bare Snakefile and start-up")
    arguments = parser.parse_args()
    result = benchmark(arguments.arms, arguments.seeds, arguments.repeats)
    arguments.json.write_text(json.dumps(result, indent=2) + "\n")
    ratio = result["ratio"]
    print(f"{result['jobs']} jobs: ratio {ratio['median']:.2f} ({ratio['lowest']:.2f}-{ratio['highest']:.2f})")


if __name__ == "__main__":
    main()
