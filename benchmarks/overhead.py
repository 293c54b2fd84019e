"""The share of time on a Slurm cluster that is neither training nor generation, with and without bundled evaluations.

    python benchmarks/overhead.py --json FILE [--tree PATH] [--runs 4] [--sets 2]

A study runs on the test cluster (tests/slurm/cluster.py) of two slots. Its trainer and its evaluation are stand-ins of
known length: the trainer trains for some seconds, and an evaluation starts an engine and then generates for each
evaluation set. Measured are the time of the Slurm jobs beside training and generating, per run, and the CPU time of one
job's batch script. The command in the script only sleeps, so this is the CPU time of everything around the command.
`--tree` measures another checkout of the repository in the same way. Needs Slurm, and a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "workflow")]

from reward_ablation.study.resolve import resolve  # noqa: E402
from slurm.cluster import Cluster  # noqa: E402
from slurm.studies import STUDY  # noqa: E402

#: Seconds that the stand-ins take for a training, the start of an engine, and the generation for one set.
TRAIN, ENGINE, GENERATE = 20, 5, 5

#: Replaces training/__main__.py.
TRAINER = f"""
import sys
import time
from pathlib import Path

time.sleep({TRAIN})
folder = Path(sys.argv[sys.argv.index("--run-dir") + 1])
(folder / "run.json").write_text("{{}}")
"""

#: Replaces evaluation/__main__.py. The command line is that of one job per set (`--output`) or of one job per run
#: (`--answers`, a folder for the answers to all `--problems`).
EVALUATION = f"""
import sys
import time
from pathlib import Path

words = sys.argv[1:]


def values(option):
    rest = words[words.index(option) + 1 :] if option in words else []
    end = next((place for place, word in enumerate(rest) if word.startswith("--")), len(rest))
    return [Path(word) for word in rest[:end]]


folders = values("--answers")
outputs = [folders[0] / file.name for file in values("--problems")] if folders else values("--output")
with open("engines", "a") as file:
    file.write("engine\\n")
time.sleep({ENGINE})
for output in outputs:
    time.sleep({GENERATE})
    output.write_text("answers")
for record in values("--record"):
    record.write_text("{{}}")
"""

#: Replaces `sbatch`: keeps the script and the environment of the last submission.
KEEPING = """#!/bin/sh
case "$*" in *--test-only*) exec {sbatch} "$@" ;; esac
cat > {folder}/script.$$
export -p > {folder}/variables.$$
{sbatch} "$@" < {folder}/script.$$ || exit
mv {folder}/script.$$ {folder}/script
mv {folder}/variables.$$ {folder}/variables
"""


def copy_of(tree: Path, folder: Path) -> Path:
    """A copy of a checkout's code whose trainer and evaluation are the stand-ins."""
    for name in ("workflow", "profiles"):
        shutil.copytree(tree / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy2(tree / "Snakefile", folder)
    library = folder / "workflow" / "reward_ablation"
    (library / "training" / "__main__.py").write_text(TRAINER)
    (library / "evaluation" / "__main__.py").write_text(EVALUATION)
    return folder


def started(code: Path, folder: Path, runs: int, sets: int, bundle: str | None) -> list[str]:
    """Write a study. Returns the command that trains and evaluates all of its runs, and makes no table."""
    folder.mkdir(parents=True)
    config = copy.deepcopy(STUDY) | {"seeds": list(range(runs)), "launch": {"gpus": 1}}
    del config["components"]["held"]
    config["arms"] = {"design": "list", "arms": {"one": {"weights": {"length": 1}}}}
    source = config["data"]["evaluation"]["test"]
    config["data"]["evaluation"] = {f"set{number}": source | {"count": 12 + number} for number in range(sets)}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    ask = {"hours": 0.5, "mem_gb": 1, "cpus": 1}
    site = {"partition": "gpu", "train": ask, "evaluate": ask} | ({"bundle": bundle} if bundle else {})
    (folder / "site.yaml").write_text(yaml.safe_dump(site))
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(code / "Snakefile"), "--configfile", "config.yaml"]
    command += ["--workflow-profile", str(code / "profiles" / "default"), "--profile", str(code / "profiles" / "slurm")]
    study = resolve(config, "config.yaml", folder)
    root = f"{study.config.root}/{study.answers_folder}"
    answers = [f"{root}/{run}/{data}.parquet" for run in study.runs for data in study.datasets]
    return [*command, "--slurm-study-site", "site.yaml", "--slurm-study-poll", "2", *answers]


def measured(cluster: Cluster, code: Path, folder: Path, runs: int, sets: int, bundle: str | None) -> dict[str, float]:
    """Run one study. Returns jobs, engine starts and slot seconds per run, and the share of overhead."""
    before = {job.id for job in cluster.jobs()}
    command = started(code, folder, runs, sets, bundle)
    programs = folder.parent / f"{folder.name}_bin"
    programs.mkdir()
    (programs / "sbatch").write_text(KEEPING.format(folder=programs, sbatch=shutil.which("sbatch")))
    (programs / "sbatch").chmod(0o755)
    environment = cluster.environment | {"PYTHONPATH": str(code / "workflow")}
    environment["PATH"] = f"{programs}:{environment['PATH']}"
    began = time.monotonic()
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    wall = time.monotonic() - began
    if result.returncode:
        sys.exit(f"error: {' '.join(command)}\n{result.stdout}{result.stderr}")
    lines = cluster.run("squeue", "--states=all", "--noheader", "--format=%i|%j|%M").splitlines()
    jobs = [line.split("|") for line in lines]
    jobs_of_runs = [
        (name, seconds(lasted)) for number, name, lasted in jobs if number not in before and "_seed" in name
    ]
    slots = sum(lasted for _, lasted in jobs_of_runs)
    useful = runs * (TRAIN + sets * GENERATE)
    return {
        "slurm_jobs": len(jobs_of_runs) / runs,
        "engines": len((folder / "engines").read_text().split()) / runs,
        "slot_seconds": slots / runs,
        "overhead_seconds": (slots - useful) / runs,
        "overhead_share": 1 - useful / slots,
        "wall_seconds": wall,
        "script_cpu_seconds": cpu_of_script(programs, folder),
    }


def cpu_of_script(programs: Path, folder: Path) -> float:
    """CPU seconds of the last submitted batch script. It is run once more, without Slurm."""
    before = os.times()
    command = f". {programs}/variables; export SLURM_JOB_ID=0; exec bash {programs}/script"
    subprocess.run(["sh", "-c", command], cwd=folder, check=True, capture_output=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def seconds(lasted: str) -> int:
    """Seconds of a time as squeue writes it, [hours:]minutes:seconds."""
    total = 0
    for part in lasted.split(":"):
        total = 60 * total + int(part)
    return total


def measure(tree: Path, runs: int, sets: int, folder: Path) -> dict[str, Any]:
    """Measure each way of evaluation that the checkout has."""
    code = copy_of(tree, folder / "code")
    ways: dict[str, str | None] = {"separate jobs": None}
    if "bundle" in (tree / "workflow" / "reward_ablation" / "cluster" / "site.py").read_text():
        ways["bundled"] = "run"
    results = {}
    with Cluster(folder / "cluster", gpus=1) as cluster:
        for way, bundle in ways.items():
            results[way] = measured(cluster, code, folder / way.replace(" ", "_"), runs, sets, bundle)
            print(f"{way}: {results[way]}", file=sys.stderr, flush=True)
    return {"runs": runs, "sets": sets, "train": TRAIN, "engine": ENGINE, "generate": GENERATE, "ways": results}


def table(result: dict[str, Any]) -> str:
    """The result as Markdown."""
    rows = [
        f"| {way} | {one['slurm_jobs']:.1f} | {one['engines']:.1f} | {one['slot_seconds']:.1f} "
        f"| {one['overhead_seconds']:.1f} | {one['overhead_share']:.0%} | {one['wall_seconds']:.0f} "
        f"| {one['script_cpu_seconds']:.2f} |"
        for way, one in result["ways"].items()
    ]
    return "\n".join(
        [
            "| | Slurm jobs per run | engine starts per run | slot seconds per run "
            "| of these, neither training nor generating | share "
            "| seconds of the study | CPU seconds of a job's script |",
            "| --- | --- | --- | --- | --- | --- | --- | --- |",
            *rows,
            "",
            f"{result['runs']} runs on two slots: {result['train']} s of training, {result['engine']} s for the start "
            f"of an engine, and {result['generate']} s of generation for each of {result['sets']} sets.",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--tree", type=Path, default=ROOT, help="another checkout of the repository")
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--sets", type=int, default=2, help="evaluation sets")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = measure(arguments.tree.resolve(), arguments.runs, arguments.sets, Path(folder))
    arguments.json.write_text(json.dumps(result, indent=2) + "\n")
    print(table(result), file=sys.stderr)


if __name__ == "__main__":
    main()
