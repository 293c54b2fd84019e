"""Interrupt a small study at random times until it is done: its files must equal those of an undisturbed study.

    python benchmarks/soak.py [--interruptions 100] [--seed 0] [--folder FOLDER] [--json FILE]

Runs the study once without interruption. Then the same command starts the study over and over, and each time one of its
processes, or all of them, get a signal after a random time. When the study is done, all files are compared byte by
byte, and a new study begins, until there were `--interruptions` interruptions.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import yaml

sys.path.insert(0, str(Path(__file__).parents[1]))  # the study is the tests' own

from tests.workflow.conftest import ROOT, TINY

from reward_ablation.system.files import sha256

#: Enough steps to be interrupted between, a checkpoint at every third step, and rollouts that serve two steps.
STUDY = copy.deepcopy(TINY)
STUDY["training"] |= {"max_steps": 24, "save_strategy": "steps", "save_steps": 3, "num_iterations": 2}
STUDY["seeds"] = [0]

#: Environment variable that marks the processes of one start, so that no other process is ever signalled.
MARK = "REWARD_ABLATION_SOAK"
#: The figure of costs. Its bytes depend on times.
COST = "cost"

TRAINER, EVALUATION = "reward_ablation.training", "reward_ablation.evaluation"


def processes_of(mark: str) -> list[psutil.Process]:
    """All living processes of one start, also those whose parent has ended."""
    living = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                living.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            pass
    return living


def running(mark: str, module: str) -> list[psutil.Process]:
    """Processes of one start that run a stage of the workflow."""
    of_stage = []
    for process in processes_of(mark):
        try:
            if module in process.cmdline():
                of_stage.append(process)
        except psutil.NoSuchProcess:
            pass
    return of_stage


def signal_all(processes: list[psutil.Process], number: int) -> None:
    """Send a signal to each process that still lives."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def signal_one(module: str, number: int) -> Callable[[subprocess.Popen, str, random.Random], bool]:
    """Interruption that signals one process of a stage. Returns False if none runs."""

    def interrupt(snakemake: subprocess.Popen, mark: str, chance: random.Random) -> bool:
        processes = running(mark, module)
        signal_all(chance.sample(processes, 1) if processes else [], number)
        return bool(processes)

    return interrupt


def signal_snakemake(number: int) -> Callable[[subprocess.Popen, str, random.Random], bool]:
    """Interruption that signals Snakemake alone. Its jobs may outlive it."""

    def interrupt(snakemake: subprocess.Popen, mark: str, chance: random.Random) -> bool:
        snakemake.send_signal(number)
        return True

    return interrupt


def signal_everything(number: int) -> Callable[[subprocess.Popen, str, random.Random], bool]:
    """Interruption of Snakemake and its jobs. SIGINT is Ctrl-C in a terminal; SIGKILL comes close to a power cut."""

    def interrupt(snakemake: subprocess.Popen, mark: str, chance: random.Random) -> bool:
        signal_all(processes_of(mark), number)
        return True

    return interrupt


INTERRUPTIONS = {
    "SIGTERM to a trainer": signal_one(TRAINER, signal.SIGTERM),
    "SIGINT to a trainer": signal_one(TRAINER, signal.SIGINT),
    "SIGKILL to a trainer": signal_one(TRAINER, signal.SIGKILL),
    "SIGKILL to an evaluation": signal_one(EVALUATION, signal.SIGKILL),
    "SIGTERM to Snakemake": signal_snakemake(signal.SIGTERM),
    "SIGKILL to Snakemake": signal_snakemake(signal.SIGKILL),
    "SIGINT to all": signal_everything(signal.SIGINT),
    "SIGKILL to all": signal_everything(signal.SIGKILL),
}


class Soak:
    """A study, and the counts of its starts and interruptions.

    Parameters
    ----------
    folder : Path
        Folder of the studies and logs. The interrupted study in it is deleted before each repetition.
    seed : int
        Random seed of the times and kinds of interruptions.
    targets : tuple of str
        Targets of Snakemake. Without targets, Snakemake makes everything.
    """

    def __init__(self, folder: Path, seed: int, targets: tuple[str, ...] = ()):
        self.folder = folder
        self.targets = targets
        self.chance = random.Random(seed)
        self.tally: Counter[str] = Counter()
        self.starts = 0
        self.compared = 0
        self.seconds = 0.0  # duration of the undisturbed study
        self.logs = folder / "starts"
        self.logs.mkdir(parents=True, exist_ok=True)

    def start(self, name: str) -> tuple[subprocess.Popen, str]:
        """Start Snakemake on the study in a folder, always with the same command. Returns the process and its mark."""
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.yaml").write_text(yaml.safe_dump(STUDY, sort_keys=False))
        self.starts += 1
        mark = f"{os.getpid()}-{self.starts}"
        command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"), "--cores", "2"]
        command += ["--directory", str(folder), "--configfile", "config.yaml", "--", *self.targets]
        log = (self.logs / f"{self.starts:04d}.log").open("w")
        environment = {**os.environ, "PYTHONHASHSEED": "0", MARK: mark}
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
        return process, mark

    def quiet(self) -> dict[str, str]:
        """Run the study without an interruption. Returns the digests of its files."""
        begun = time.monotonic()
        process, _ = self.start("quiet")
        assert process.wait() == 0, f"the study fails by itself: see {self.logs}"
        self.seconds = time.monotonic() - begun
        return digests(self.folder / "quiet" / "results")

    def interrupted(self, most: int) -> dict[str, str]:
        """Run the study until it is done, with interruptions up to a total of `most`. Returns digests of its files."""
        shutil.rmtree(self.folder / "study", ignore_errors=True)
        marks: list[str] = []
        status = 1
        while status:
            process, mark = self.start("study")
            marks.append(mark)
            interrupted = sum(self.tally.values()) < most and self._interrupt(process, mark)
            status = process.wait()
            assert interrupted or not status, f"the study failed by itself: see {self.logs}/{self.starts:04d}.log"
        for mark in marks:  # jobs of a killed Snakemake may still run, on work that is already done
            psutil.wait_procs(processes_of(mark), timeout=120)
        return digests(self.folder / "study" / "results")

    def _interrupt(self, process: subprocess.Popen, mark: str) -> bool:
        """Wait for a random time, then do one of `INTERRUPTIONS`. Returns False if the study ended before."""
        end = time.monotonic() + self.chance.uniform(1, self.seconds / 2)
        while process.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
        names = list(INTERRUPTIONS)
        self.chance.shuffle(names)
        for name in names:
            if process.poll() is not None:
                break
            if INTERRUPTIONS[name](process, mark, self.chance):
                self.tally[name] += 1
                return True
        return False

    def go(self, interruptions: int) -> None:
        """Interrupt studies `interruptions` times in all. Each study must end with the files of the undisturbed one."""
        expected = self.quiet()
        while sum(self.tally.values()) < interruptions:
            made = self.interrupted(interruptions)
            different = sorted(name for name in expected.keys() | made.keys() if expected.get(name) != made.get(name))
            assert not different, f"after {dict(self.tally)} these files differ: {different}; see {self.folder}"
            self.compared += 1
            print(f"{sum(self.tally.values())} interruptions, {self.compared} studies, all the same", flush=True)

    def report(self) -> dict[str, Any]:
        """Numbers of interruptions by kind, of starts, of studies and of compared files."""
        return {
            "interruptions": sum(self.tally.values()),
            "by_kind": {name: self.tally[name] for name in INTERRUPTIONS},
            "starts": self.starts,
            "studies": self.compared,
            "files": len(digests(self.folder / "quiet" / "results")),
            "date": time.strftime("%Y-%m-%d"),
        }


def table(report: dict[str, Any]) -> str:
    """The tables as Markdown."""
    rows = [f"| {name} | {count} |" for name, count in report["by_kind"].items()]
    return "\n".join(
        [
            "| interruption | times |",
            "| --- | --- |",
            *rows,
            "",
            f"{report['interruptions']} interruptions in {report['starts']} starts of {report['studies']} studies, "
            f"{report['date']}. The {report['files']} files of each study equal those of the undisturbed study to "
            "the byte. Of `run.json`, the tables of times and the figure of costs, which depend on the clock, only the "
            "names are compared.",
        ]
    )


def digests(results: Path) -> dict[str, str]:
    """Digests of all files of a study. A file whose bytes depend on the clock has an empty digest.

    Hidden files are included, because a study must not leave work behind. `.tmp` files are left out: a killed process
    was writing them, and nobody reads them.
    """
    endings = {".parquet", ".safetensors", ".npz", ".pdf", ".png"}
    files = [path for path in sorted(results.rglob("*")) if path.is_file()]
    results_files = [path for path in files if path.relative_to(results).parts[1] not in ("logs", "benchmarks")]
    return {
        str(path.relative_to(results)): sha256(path) if path.suffix in endings and path.stem != COST else ""
        for path in results_files
        if path.name != ".lock" and path.suffix != ".tmp"
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--interruptions", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="random seed of the times and kinds of interruptions")
    parser.add_argument("--folder", type=Path, help="folder of the studies and the logs; default: a temporary folder")
    parser.add_argument("--json", type=Path, help="write the counts here")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        soak = Soak(arguments.folder or Path(temporary), arguments.seed)
        soak.go(arguments.interruptions)
        report = soak.report()
    print(json.dumps(report, indent=2))
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
