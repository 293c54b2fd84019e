"""`snakemake preview`: the tables, figures and summary of what is finished of a study, while the study goes on.

The folder `preview` of the results gets a `study.json` with the finished runs alone, and links to the study's files. A
second Snakemake with records and a folder of its own runs the rules of tables, figures and the summary there: the same
commands as in the study, and only those whose inputs changed since the last preview. The study's own files are read
and never written, its locks are not taken, and the declared question stays as it is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from reward_ablation.start.finished import FinishedPart
from reward_ablation.start.internals import is_dry_run, local_cores
from reward_ablation.start.signs import read_log_end
from reward_ablation.study.description import described_runs
from reward_ablation.study.partial import missing_lines, part_of
from reward_ablation.study.primary import Primary
from reward_ablation.study.run_folder import LOCK
from reward_ablation.study.study import DESCRIPTION, PREVIEW, Study
from reward_ablation.system.errors import storage_errors
from reward_ablation.system.files import write_json
from reward_ablation.system.locks import held
from reward_ablation.system.plain_values import printable

#: In the preview's folder: where the second Snakemake works, and there what its rules know of the study.
WORK, RULES = ".work", "rules.json"

#: Folders of the study that the tables' commands read.
READ = ("benchmarks", "data", "evaluation", "models", "runs", "scores")

#: What is printed and written above the summary: how far a preview carries.
CAUTION = (
    "Estimates, intervals and p-values change as runs finish. A preview is no look of a sequential rule: stop or "
    "conclude nothing by it."
)


@dataclass(frozen=True)
class RulesKnow:
    """What the rules of tables, figures and the summary ask of a study, as far as the study is finished."""

    answers_folder: str
    runs: list[str]
    datasets: list[str]
    keeping_runs: list[str]
    scores: list[str]
    trained_on: list[str]
    asked_tables: list[str]
    mixed_provenance: str
    claims: tuple[()] = ()
    code_of = staticmethod(Study.code_of)

    @property
    def config(self) -> SimpleNamespace:
        """The one key of the config that these rules read."""
        return SimpleNamespace(mixed_provenance=self.mixed_provenance)

    @classmethod
    def read(cls, path: Path) -> RulesKnow:
        """Read what a preview has written for its rules."""
        return cls(**json.loads(path.read_text(encoding="utf-8")))


@dataclass(frozen=True)
class Preview:
    """The preview of a study's finished part."""

    study: Study
    finished: FinishedPart
    workflow: Any

    @property
    def folder(self) -> Path:
        """The preview's folder, the only one that is written to."""
        return self.study.root / self.study.config.root / PREVIEW

    def make(self, tell: Callable[[str], None]) -> int:
        """Make what changed since the last preview; 1 where a table, figure or the summary could not be made."""
        name = f"study {self.study.config.name}"
        if not self.finished.runs:
            tell(f"{name}: nothing to preview: {self._nothing()}")
            return 0
        content, missing = self._content()
        tell(f"{name}: preview of {content['preview']['runs']} of {content['preview']['planned']} runs")
        for line in missing:
            tell(f"- {printable(line)}")
        tell(CAUTION)
        if is_dry_run(self.workflow):
            return 0
        with storage_errors(self.folder):
            self.folder.mkdir(exist_ok=True)
            with held(self.folder / LOCK, f"{self._shown()}: {{holder}} makes a preview there; wait until it is done"):
                return self._make(content, tell)

    def _nothing(self) -> str:
        trained = len(self.finished.trained)
        if not trained:
            return "no run is trained"
        return f"{trained} run{'s are' if trained > 1 else ' is'} trained, and none is evaluated beside the base model"

    def _make(self, content: dict[str, Any], tell: Callable[[str], None]) -> int:
        """Write what the rules need, run them, and tell where their files are, or what failed."""
        work = self.folder / WORK
        work.mkdir(exist_ok=True)
        for folder in READ:
            with suppress(FileExistsError):
                (self.folder / folder).symlink_to(Path("..", folder), target_is_directory=True)
        write_if_changed(content, self.folder / DESCRIPTION)
        write_if_changed(asdict(self._rules_know()), work / RULES)
        log = self.folder / "logs" / "snakemake.log"
        log.parent.mkdir(exist_ok=True)
        with log.open("wb") as file:
            environment = {name: value for name, value in os.environ.items() if name != "SNAKEMAKE_PROFILE"}
            given: dict[str, Any] = {
                "stdin": subprocess.DEVNULL,
                "stdout": file,
                "stderr": subprocess.STDOUT,
                "env": environment,
            }
            status = subprocess.run(self._command(work), **given, preexec_fn=partial(os.nice, 10)).returncode
        if not status:
            tell(f"{self._shown()}/tables/summary.md, {self._shown()}/figures/all.pdf")
            return 0
        ends = {path: read_log_end(path) for path in sorted(log.parent.rglob("*.log")) if path != log}
        for path, end in ends.items():
            if end and end.error:
                tell(printable(f"failed: {end.error.removeprefix('error: ')} (log: {self._shown(path)})"))
        tell(f"the preview is not whole; log: {self._shown(log)}; a run may have changed: run the same command again")
        return 1

    def _command(self, work: Path) -> list[str]:
        """The second Snakemake, on this machine, below the training in priority."""
        snakefile = Path(self.workflow.basedir) / "workflow" / "preview.smk"
        options = ["--cores", str(local_cores(self.workflow)), "--nolock", "--keep-going", "--rerun-incomplete"]
        options += ["--force-use-threads"]  # or each figure would start a Snakemake of its own
        options += ["--workflow-profile", "none", "--rerun-triggers", "mtime", "params", "input"]
        return [
            *(sys.executable, "-m", "snakemake", "--snakefile", str(snakefile), "--directory", str(work)),
            *options,
        ]

    def _content(self) -> tuple[dict[str, Any], list[str]]:
        """`study.json` of the finished part, and what is missing; the question is as declared, and never declared."""
        study, question = self.study, self.study.question
        primary = Primary(**question.model_dump(), digest=question.key) if study.declares else study.primary
        claims = [claim.model_dump() for claim in study.claims]
        runs = described_runs(study)
        whole = {**study.summary, "primary": primary.model_dump(), "claims": claims, "runs": runs}
        names = dict(zip(study.datasets, study.dataset_names, strict=True))
        datasets = [names[dataset] for dataset in self.finished.datasets]
        shown = [f"runs/{run}" for run in self.finished.runs]
        part = part_of(whole, shown, datasets)
        missing = missing_lines(whole, part, [run for run in self.finished.trained if f"runs/{run}" not in shown])
        preview = {"runs": len(shown), "planned": len(study.runs), "missing": missing, "caution": CAUTION}
        return {**part, "preview": preview}, missing

    def _rules_know(self) -> RulesKnow:
        study, finished = self.study, self.finished
        root, models = study.root / study.config.root, ("base", *finished.runs)
        scores = [
            file
            for file in study.scores
            if any(f"/{model}/{dataset}." in file for model in models for dataset in finished.datasets)
        ]
        return RulesKnow(
            answers_folder=study.answers_folder,
            runs=finished.runs,
            datasets=finished.datasets,
            keeping_runs=[run for run in finished.runs if run in study.keeping_runs],
            scores=scores,
            trained_on=[file for file in study.trained_on if (root / file).is_file()],
            asked_tables=[rule for rule in study.asked_tables if rule != "claims"],
            mixed_provenance=study.config.mixed_provenance,
        )

    def _shown(self, path: Path | None = None) -> str:
        """A path as the user may type it."""
        below = path.relative_to(self.folder) if path else ""
        return Path(self.study.config.root, PREVIEW, below).as_posix()


def write_if_changed(value: Any, path: Path) -> None:
    """Write JSON where the file has another content: what is made of the file counts as old then."""
    with suppress(OSError, ValueError):
        if json.loads(path.read_bytes()) == json.loads(json.dumps(value)):
            return
    write_json(value, path)
