"""Interrupt a small study at random points until it is done, again and again: its files must be those of a quiet run.

    python benchmarks/soak.py [--interruptions 100] [--seed 0] [--folder FOLDER] [--json FILE]

Runs the study once without interruption. Then starts it with the same command over and over, and each time ends a
process of it, or all of them, after a random while. When it is done all files are compared byte by byte, and
it begins anew.
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

DOCUMENT = "reliability.md"

#: Steps enough to be interrupted among; a checkpoint at every third; rollouts that serve two steps.
STUDY = copy.deepcopy(TINY)
STUDY["training"] |= {"max_steps": 24, "save_strategy": "steps", "save_steps": 3, "num_iterations": 2}
STUDY["seeds"] = [0]

#: Marks the processes of one start, so that no other is ever signalled.
MARK = "REWARD_ABLATION_SOAK"
#: The figure that a clock decides.
COST = "cost"

TRAINER, EVALUATION = "reward_ablation.training", "reward_ablation.evaluation"


def mine(mark: str) -> list[psutil.Process]:
    """All living processes of one start, those included that have outlived what started them."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            pass
    return found


def running(mark: str, module: str) -> list[psutil.Process]:
    """Processes of one start that run a stage of the workflow."""
    found = []
    for process in mine(mark):
        try:
            if module in process.cmdline():
                found.append(process)
        except psutil.NoSuchProcess:
            pass
    return found


def signal_all(processes: list[psutil.Process], number: int) -> None:
    """Send a signal to each that still lives."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def signal_one(module: str, number: int) -> Callable[[subprocess.Popen, str, random.Random], bool]:
    """Signal one process of a stage; False where none runs."""

    def interrupt(snakemake: subprocess.Popen, mark: str, chance: random.Random) -> bool:
        processes = running(mark, module)
        signal_all(chance.sample(processes, 1) if processes else [], number)
        return bool(processes)

    return interrupt


def signal_snakemake(number: int) -> Callable[[subprocess.Popen, str, random.Random], bool]:
    """Signal Snakemake alone: its jobs may outlive it."""

    def interrupt(snakemake: subprocess.Popen, mark: str, chance: random.Random) -> bool:
        snakemake.send_signal(number)
        return True

    return interrupt


def signal_everything(number: int) -> Callable[[subprocess.Popen, str, random.Random], bool]:
    """Signal Snakemake and its jobs: SIGINT is Ctrl-C in a terminal, SIGKILL as near as a test gets to a power cut."""

    def interrupt(snakemake: subprocess.Popen, mark: str, chance: random.Random) -> bool:
        signal_all(mine(mark), number)
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
    """A study, its undisturbed files, and the tally of what it went through.

    Parameters
    ----------
    folder : Path
        For the studies; emptied again and again.
    seed : int
        Decides when and how the study is interrupted.
    targets : tuple of str
        What Snakemake is asked for; everything where there are none.
    """

    def __init__(self, folder: Path, seed: int, targets: tuple[str, ...] = ()):
        self.folder = folder
        self.targets = targets
        self.chance = random.Random(seed)
        self.tally: Counter[str] = Counter()
        self.starts = 0
        self.compared = 0
        self.seconds = 0.0  # that the quiet study takes
        self.logs = folder / "starts"
        self.logs.mkdir(parents=True, exist_ok=True)

    def start(self, name: str) -> tuple[subprocess.Popen, str]:
        """Start Snakemake on the study in a folder: always the same command."""
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
        """The study without an interruption: digests of its files."""
        begun = time.monotonic()
        process, _ = self.start("quiet")
        assert process.wait() == 0, f"the study fails by itself: see {self.logs}"
        self.seconds = time.monotonic() - begun
        return digests(self.folder / "quiet" / "results")

    def interrupted(self, most: int) -> dict[str, str]:
        """The study with interruptions, `most` of them or until it is done: digests of its files."""
        shutil.rmtree(self.folder / "study", ignore_errors=True)
        marks: list[str] = []
        status = 1
        while status:
            process, mark = self.start("study")
            marks.append(mark)
            interrupted = sum(self.tally.values()) < most and self._interrupt(process, mark)
            status = process.wait()
            assert interrupted or not status, f"the study failed by itself: see {self.logs}/{self.starts:04d}.log"
        for mark in marks:  # orphans of a killed Snakemake, which do work that is done by now
            psutil.wait_procs(mine(mark), timeout=120)
        return digests(self.folder / "study" / "results")

    def _interrupt(self, process: subprocess.Popen, mark: str) -> bool:
        """Wait a while, then do one of `INTERRUPTIONS`; False where the study ended before."""
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
        """Interrupt so many times, over as many studies as it takes; each must end as the quiet one."""
        expected = self.quiet()
        while sum(self.tally.values()) < interruptions:
            found = self.interrupted(interruptions)
            different = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
            assert not different, f"after {dict(self.tally)} these files differ: {different}; see {self.folder}"
            self.compared += 1
            print(f"{sum(self.tally.values())} interruptions, {self.compared} studies, all the same", flush=True)

    def report(self) -> dict[str, Any]:
        """What was done to how many studies."""
        return {
            "interruptions": sum(self.tally.values()),
            "by_kind": {name: self.tally[name] for name in INTERRUPTIONS},
            "starts": self.starts,
            "studies": self.compared,
            "files": len(digests(self.folder / "quiet" / "results")),
            "date": time.strftime("%Y-%m-%d"),
        }


def table(report: dict[str, Any]) -> str:
    """Markdown for docs/reliability.md."""
    rows = [f"| {name} | {count} |" for name, count in report["by_kind"].items()]
    return "\n".join(
        [
            "| interruption | times |",
            "| --- | --- |",
            *rows,
            "",
            f"{report['interruptions']} interruptions in {report['starts']} starts of {report['studies']} studies, "
            f"{report['date']}: the {report['files']} files of each study are those of the one that was left alone, "
            "to the byte; `run.json`, the tables of times and the figure of costs, which the clock decides, by their "
            "names.",
        ]
    )


def digests(results: Path) -> dict[str, str]:
    """Digests of all that a study leaves and no clock decides; what a clock decides is there by its name.

    Hidden files are there, too: no work is left behind, but for what a killed process was writing under a name
    that nobody reads.
    """
    endings = {".parquet", ".safetensors", ".npz", ".pdf", ".png"}
    files = [path for path in sorted(results.rglob("*")) if path.is_file()]
    told = [path for path in files if path.relative_to(results).parts[1] not in ("logs", "benchmarks")]
    return {
        str(path.relative_to(results)): sha256(path) if path.suffix in endings and path.stem != COST else ""
        for path in told
        if path.name != ".lock" and path.suffix != ".tmp"
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--interruptions", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="of the times and kinds of interruptions")
    parser.add_argument("--folder", type=Path, help="for the studies and the logs; default: one that is removed")
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
