"""A tiny study with its own code, for tests that edit it and see what the plan says and what is trained."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from reward_ablation.data.word_problems import generate

from .conftest import ROOT, TINY, Study, jobs_of
from .starting import command_line, forking_python, snakemake

REWARDS = '''
"""A user's reward, which imports a file of the user's."""

from my_helpers import fits


def brevity(completions, completion_ids, *, limit: int, **columns):
    """1 for completions of at most `limit` tokens."""
    return [fits(len(ids), limit) for ids in completion_ids]
'''

HELPERS = """
def fits(length, limit):
    return float(length <= limit)
"""

#: Two arms with two seeds, one step each; a file of rewards and a file of problems are the user's.
EDITED = {
    **copy.deepcopy(TINY),
    "components": {
        "correctness": TINY["components"]["correctness"],
        "format": {"function": "answer_format", "parameters": {"format": "hash"}},
        "brevity": {"function": "my_rewards.py:brevity", "parameters": {"limit": 12}},
    },
    "arms": {
        "design": "list",
        "arms": {
            "mixed": {"weights": {"correctness": 1, "format": 0.5}},
            "short": {"weights": {"brevity": 1}},
        },
    },
}
EDITED["data"]["train"] = {"source": "file", "path": "problems.jsonl"}
EDITED["training"]["max_steps"] = 1


def copy_of_the_code(folder: Path) -> Path:
    """A copy of all that Snakemake runs of the repository."""
    for name in ("workflow", "profiles", "envs"):
        shutil.copytree(ROOT / name, folder / name)  # compiled modules, too: they serve while the times are the same
    shutil.copy2(ROOT / "Snakefile", folder)
    return folder


class Bench:
    """A study's folder and the code that it runs, a copy of the repository's.

    Attributes
    ----------
    folder : Path
        Where Snakemake is started: config, rewards, problems, results.
    code : Path
        Folder with Snakefile, profiles and workflow.
    printed : str
        What the last training printed.
    """

    printed = ""

    def __init__(self, folder: Path, code: Path, config: dict[str, Any]):
        self.folder = folder
        self.code = code
        self.config = copy.deepcopy(config)
        self.results = folder / "results" / config["name"]

    @classmethod
    def new(cls, place: Path) -> Bench:
        """A study that has not been started."""
        bench = cls(place / "study", copy_of_the_code(place / "code"), EDITED)
        bench.folder.mkdir(parents=True)
        (bench.folder / "my_rewards.py").write_text(REWARDS)
        (bench.folder / "my_helpers.py").write_text(HELPERS)
        rows = [json.dumps({name: row[name] for name in ("question", "answer")}) for row in generate(64, 0, "train")]
        (bench.folder / "problems.jsonl").write_text("\n".join(rows) + "\n")
        return bench

    @classmethod
    def of(cls, finished: Study, place: Path) -> Bench:
        """A copy of a finished study with the code that it ran, file times and Snakemake's records included."""
        shutil.copytree(finished.folder, place / "study")
        return cls(place / "study", copy_of_the_code(place / "code"), finished.config)

    def copied(self, place: Path) -> Bench:
        """A copy, file times and Snakemake's records included."""
        shutil.copytree(self.folder, place / "study")
        shutil.copytree(self.code, place / "code")
        return Bench(place / "study", place / "code", self.config)

    def command(self, *arguments: str) -> list[str]:
        """Arguments of Snakemake with this code; its config is written."""
        (self.folder / "config.yaml").write_text(yaml.safe_dump(self.config, sort_keys=False))
        command = [*arguments, "--snakefile", str(self.code / "Snakefile")]
        return [*command, "--directory", str(self.folder), "--cores", "2", "--configfile", "config.yaml"]

    @property
    def environment(self) -> dict[str, str]:
        """Environment of Snakemake with this code."""
        return {**os.environ, "PYTHONPATH": str(self.code / "workflow")}

    def start(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Start Snakemake and wait for its end."""
        return snakemake(self.command(*arguments), self.folder, self.code / "workflow", self.environment)

    def snakemake(self, *arguments: str) -> str:
        """Start Snakemake; what it prints."""
        result = self.start(*arguments)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout + result.stderr

    def ask(self, name: str, *options: str) -> subprocess.CompletedProcess[str]:
        """What `reward-ablation NAME config.yaml OPTIONS` does."""
        (self.folder / "config.yaml").write_text(yaml.safe_dump(self.config, sort_keys=False))
        return command_line(self.folder, self.code / "workflow", self.environment, name, "config.yaml", *options)

    def told(self, name: str, *options: str) -> str:
        """What a command prints that ends well."""
        result = self.ask(name, *options)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    def refused(self, name: str, *options: str) -> str:
        """The one line with which a command ends that is refused."""
        result = self.ask(name, *options)
        assert result.returncode == 1, result.stdout + result.stderr
        assert "Traceback" not in result.stderr
        [line] = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
        return line

    @contextmanager
    def running(self, *arguments: str) -> Iterator[subprocess.Popen]:
        """Snakemake while it runs; killed at the end, with its jobs, as by a power cut."""
        process = subprocess.Popen(
            [forking_python(), "-m", "snakemake", *self.command(*arguments)],
            cwd=self.folder,
            env=self.environment,
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def plan(self, *arguments: str) -> str:
        """What `reward-ablation plan` prints."""
        return self.told("plan", "--quick", *arguments)

    def planned(self, *arguments: str) -> int:
        """Number of runs to train, by `reward-ablation plan`."""
        found = re.search(r"^study \w+: (\d+) of \d+ runs? to train\b", self.plan(*arguments), re.MULTILINE)
        return int(found[1])

    def dry_run(self, *arguments: str) -> dict[str, int]:
        """Jobs of a dry run, by rule; the target `all` is none."""
        jobs = jobs_of(self.snakemake("--dry-run", *arguments))
        return {rule: count for rule, count in jobs.items() if rule not in ("all", "total")}

    def would_train(self) -> set[str]:
        """Names of the runs that a dry run would train."""
        return set(re.findall(r"\btrain (\S+); GPUs", self.snakemake("--dry-run", "--until", "train")))

    @contextmanager
    def without_records(self) -> Iterator[None]:
        """Inside this context, Snakemake's own records are away."""
        records = self.folder / ".snakemake"
        kept = records.rename(self.folder / "kept_records")
        yield
        shutil.rmtree(records, ignore_errors=True)  # a command makes none
        kept.rename(records)

    def train(self, *arguments: str) -> set[str]:
        """Really start, as far as training; names of the runs that were trained."""
        before = self.models()
        self.printed = self.snakemake("--until", "train", *arguments)
        after = self.models()
        for name in after:
            assert (self.results / "runs" / name / "run.json").is_file()
        return {name for name in after if after[name] != before.get(name)}

    def models(self) -> dict[str, tuple[int, int]]:
        """The identity of each run's model file. Another training makes another file, even with the same bytes."""
        files = sorted(self.results.glob("runs/*/*/model/model.safetensors"))
        states = {str(file.parents[1].relative_to(self.results / "runs")): file.stat() for file in files}
        return {name: (state.st_ino, state.st_mtime_ns) for name, state in states.items()}

    def set(self, path: str, value: Any) -> None:
        """Set a key of the config; `None` takes it out."""
        *parents, last = path.split(".")
        section = self.config
        for key in parents:
            section = section[key]
        section[last] = value
        if value is None:
            del section[last]

    def replace(self, file: str, old: str, new: str) -> None:
        """Edit a file of the study or of the code, at the first place."""
        path = next(place / file for place in (self.folder, self.code) if (place / file).is_file())
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))

    def append(self, file: str, text: str) -> None:
        """Add lines to a file of the code."""
        with (self.code / "workflow" / "reward_ablation" / file).open("a") as stream:
            stream.write(text)
