"""Tables, figures and summary of a folder with a `study.json`, made by a second Snakemake.

`reward-ablation preview` calls it for a part of a study, and `import` for runs without a config of training. The second
Snakemake has its own folder and records, and runs `workflow/preview.smk`, which reads the `DescribedStudy`. Its rules
of tables, figures and the summary are a trained study's, and it runs only the rules whose inputs changed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from reward_ablation.start.signs import read_log_end
from reward_ablation.system.files import write_json
from reward_ablation.system.locks import Lock
from reward_ablation.system.plain_values import printable

#: Working folder of the second Snakemake, below the described folder; and its file with the `DescribedStudy`.
WORK, RULES = ".work", "rules.json"


@dataclass(frozen=True)
class DescribedStudy:
    """What the rules of tables, figures and the summary need to know of the described study, by `Study`'s names."""

    answers_folder: str
    runs: list[str]
    datasets: list[str]
    keeping_runs: list[str]
    scores: list[str]
    trained_on: list[str]
    asked_tables: list[str]
    mixed_provenance: str
    figures: dict[str, str | bool]
    empty_tables: list[str] = field(default_factory=list)
    base: list[str] = field(default_factory=lambda: ["base"])
    claims: list[str] = field(default_factory=list)

    @property
    def sound_runs(self) -> list[str]:
        """The runs, under the name that the study has for runs that did not diverge."""
        return self.runs

    @property
    def evaluated_models(self) -> list[str]:
        """The models with answers: the base model, if it was evaluated, and the runs."""
        return [*self.base, *self.runs]

    @property
    def config(self) -> SimpleNamespace:
        """The keys of the config that these rules read."""
        return SimpleNamespace(mixed_provenance=self.mixed_provenance, figures=SimpleNamespace(**self.figures))

    @classmethod
    def read(cls, path: Path) -> DescribedStudy:
        """Read the file that was written for the rules."""
        return cls(**json.loads(path.read_text(encoding="utf-8")))


def make_tables(
    folder: Path,
    shown: str,
    rules: DescribedStudy,
    home: Path,
    cores: int,
    tell: Callable[[str], None],
    lock: Lock,
    report: str | None = None,
) -> int:
    """Make what changed in a folder, called `shown`, since the last time; 1 where anything failed, else 0."""
    work = folder / WORK
    work.mkdir(exist_ok=True)
    write_if_changed(asdict(rules), work / RULES)
    log = folder / "logs" / "snakemake.log"
    log.parent.mkdir(exist_ok=True)
    with log.open("wb") as file:
        failed = run_snakemake(home, work, ["--cores", str(cores), "--keep-going", "--rerun-incomplete"], file, lock)
        if report and not failed and not is_newest(folder / report):
            failed = run_snakemake(home, work, ["--report", f"../{report}"], file, lock)
    if not failed:
        made = [*([report] if report else []), "tables/summary.md", "figures/all.pdf"]
        tell(", ".join(f"{shown}/{name}" for name in made))
        return 0
    ends = {path: read_log_end(path) for path in sorted(log.parent.rglob("*.log")) if path != log}
    for path, end in ends.items():
        if end and end.error:
            where = f"{shown}/{path.relative_to(folder).as_posix()}"
            tell(printable(f"failed: {end.error.removeprefix('error: ')} (log: {where})"))
    tell(
        f"the tables and figures are incomplete; log: {shown}/logs/snakemake.log; a run may have changed meanwhile: "
        "run the same command again"
    )
    return 1


def is_newest(report: Path) -> bool:
    """Whether a report is newer than all tables and figures beside it."""
    made = [file.stat().st_mtime_ns for name in ("tables", "figures") for file in (report.parent / name).iterdir()]
    return report.is_file() and report.stat().st_mtime_ns > max(made)


def run_snakemake(home: Path, work: Path, options: list[str], log: Any, lock: Lock) -> int:
    """Run the second Snakemake, which holds `lock`, with its jobs on this machine; its exit status."""
    options = [*options, "--nolock", "--workflow-profile", "none", "--rerun-triggers", "mtime", "params", "input"]
    options += ["--snakefile", str(home / "workflow" / "preview.smk"), "--directory", str(work)]
    environment = {name: value for name, value in os.environ.items() if name != "SNAKEMAKE_PROFILE"}
    return subprocess.run(
        # Not os.nice in the child: Python would close locks there.
        ["nice", "-n", "10", sys.executable, "-m", "snakemake", *options],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        # No job imports a module that somebody has put into the folder.
        env=environment | {"PYTHONSAFEPATH": "1"},
        pass_fds=[] if lock.descriptor is None else [lock.descriptor],
    ).returncode


def write_if_changed(value: Any, path: Path) -> None:
    """Write JSON if the file has another content. Snakemake makes the outputs of a written file again."""
    with suppress(OSError, ValueError):
        if json.loads(path.read_bytes()) == json.loads(json.dumps(value)):
            return
    write_json(value, path)
