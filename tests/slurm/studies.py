"""Small studies through the Slurm profile, as a user starts them, on the test cluster."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from reward_ablation.cluster.job_names import prefix
from reward_ablation.rewards.trial import TRY
from reward_ablation.start.full_check import PASSED
from reward_ablation.study.resolve import resolve
from workflow.conftest import ROOT, TINY, Study, with_inputs_of
from workflow.starting import forking_python

from .cluster import Cluster, wait_until

#: A component that gives 0 after as many seconds as stand in a file `slow`, and ends its process once where there is a
#: file `kill`.
SLOW = """
import os
import signal
import time
from pathlib import Path


def slow(completions, **columns):
    slow = Path("slow")
    time.sleep(float(slow.read_text() or 0) if slow.exists() else 0)
    if Path("kill").exists():
        Path("kill").unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    return [0.0] * len(completions)
"""

#: What Python does first, by which a test holds evaluations up as long as there is a file `hold`.
HOLD = """
import sys
import time
from pathlib import Path

if "reward_ablation.evaluation" in sys.orig_argv:
    while Path("hold").exists():
        time.sleep(0.1)
"""

#: Two runs of some steps each.
STUDY = {
    **copy.deepcopy(TINY),
    "name": "cluster",
    "seeds": [0],
    "components": {
        "format": {"function": "answer_format", "parameters": {"format": "hash"}},
        "length": {"function": "token_length", "parameters": {"target": 12, "width": 12}},
        "held": {"function": "slow.py:slow"},
    },
    "arms": {"design": "list", "arms": {"one": {"weights": {"length": 1}}, "two": {"weights": {"format": 1}}}},
}
STUDY["training"] |= {"max_steps": 24, "save_strategy": "steps", "save_steps": 8}

#: What the test cluster gives; a CPU each, since it has more of them than the machine.
SITE = {
    "partition": "gpu",
    "train": {"hours": 0.5, "mem_gb": 1, "cpus": 1},
    "evaluate": {"hours": 0.5, "mem_gb": 1, "cpus": 1},
}


class ClusterStudy(Study):
    """A study with a site file on a test cluster; `changes` are keys other than `STUDY`'s."""

    def __init__(self, folder: Path, cluster: Cluster, **changes: Any):
        super().__init__(folder, {**STUDY, **changes})
        self.cluster = cluster
        self.site = copy.deepcopy(SITE)
        #: Of starts and of their jobs.
        self.python = forking_python()
        # The files by which tests have the reward fail are for the jobs.
        self.environment = {**cluster.environment, "PYTHONHASHSEED": "0", TRY: "no"}
        self.started: list[subprocess.Popen] = []
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "slow.py").write_text(SLOW)

    @property
    def prefix(self) -> str:
        """What the names of its jobs begin with."""
        return prefix(self.config["name"], self.results)

    def beside(self, folder: Path, cluster: Cluster | None = None, **changes: Any) -> ClusterStudy:
        """The same study in another folder, or on another cluster, with the model and the data there."""
        other = with_inputs_of(self, ClusterStudy(folder, cluster or self.cluster, **changes))
        if (self.results / PASSED).is_file():  # TRL has passed these settings
            shutil.copy2(self.results / PASSED, other.results)
        return other

    def arguments(self, *arguments: str) -> list[str]:
        """Arguments of Snakemake; the config and the site file are written."""
        (self.folder / "site.yaml").write_text(yaml.safe_dump(self.site, sort_keys=False))
        profiles = ["--workflow-profile", f"{ROOT}/profiles/default", "--profile", f"{ROOT}/profiles/slurm"]
        own = ["--latency-wait", "5", "--slurm-study-site", "site.yaml", "--slurm-study-poll", "1"]
        return super().arguments(*arguments, *profiles, *own)[2:]  # without --cores

    def start(self, *arguments: str, log: str = "start.log") -> subprocess.Popen:
        """Start Snakemake and go on; what it prints goes to a file in the folder."""
        with (self.folder / log).open("w") as file:
            process = subprocess.Popen(
                [self.python, "-m", "snakemake", *self.arguments(*arguments)],
                cwd=self.folder,
                env=self.environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C of a test is not meant for it
            )
        self.started.append(process)
        return process

    def start_training(self, step: int, *arguments: str) -> subprocess.Popen:
        """Start slow runs, and wait until both have made some steps."""
        self.slow()
        start = self.start(*self.targets(), *arguments)
        for arm in ("one", "two"):
            self.wait_for_step(arm, step)
        return start

    def run(self, *arguments: str, log: str = "run.log", timeout: float = 400) -> tuple[int, str]:
        """Start Snakemake and wait for its end; gives its status and all that it printed."""
        return self.start(*arguments, log=log).wait(timeout), self.said(log)

    def said(self, log: str = "start.log") -> str:
        """Text that a start has printed until now."""
        return (self.folder / log).read_text()

    def train(self, **options: Any) -> tuple[int, str]:
        """Train all runs and no more."""
        return self.run(*self.targets(), **options)

    def targets(self) -> list[str]:
        """The runs' records; where the runs' evaluations follow in the same Slurm jobs, their answers, too."""
        study = resolve(self.config, "config.yaml", self.folder)
        root = f"results/{self.config['name']}"
        targets = [f"{root}/runs/{name}/run.json" for name in study.runs]
        if self.site.get("bundle"):
            answers = [f"{name}/{data}.parquet" for name in study.runs for data in study.datasets]
            targets += [f"{root}/{study.answers_folder}/{file}" for file in answers]
        return targets

    def hold_evaluations(self) -> None:
        """Have the evaluations of the next starts wait until `release`."""
        self.python = sys.executable
        (self.folder / "first").mkdir()
        (self.folder / "first" / "sitecustomize.py").write_text(HOLD)
        paths = [str(self.folder / "first"), self.environment.get("PYTHONPATH", "")]
        self.environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        (self.folder / "hold").touch()

    def release(self) -> None:
        """Have evaluations wait no longer."""
        (self.folder / "hold").unlink()

    def slurm_jobs(self) -> list[str]:
        """The Slurm jobs of the study by their names without the study, ended ones too, in order of their numbers."""
        jobs = sorted(self.cluster.jobs(), key=lambda job: int(job.id))
        return [job.name.removeprefix(f"{self.prefix}.") for job in jobs if self.prefix in job.name]

    def slow(self, seconds: float = 0.3) -> None:
        """Have each training step take so many seconds more."""
        (self.folder / "slow").write_text(str(seconds))

    def log_of(self, arm: str) -> str:
        """Training log of an arm's run."""
        return "".join(path.read_text() for path in self.results.glob(f"logs/train/{arm}-*/*.log"))

    def wait_for_step(self, arm: str, step: int, timeout: float = 120) -> None:
        """Wait until an arm's run has made a step."""
        wait_until(f"step {step} of {arm}", lambda: f"step {step}/" in self.log_of(arm), timeout)

    def job_of(self, arm: str) -> str:
        """Number of the Slurm job that trains an arm."""
        jobs = [job for job in self.cluster.jobs() if f".train.{arm}-" in job.name and job.state == "RUNNING"]
        assert len(jobs) == 1, jobs
        return jobs[0].id

    def records(self) -> dict[str, dict[str, Any]]:
        """run.json of each finished run, by arm."""
        paths = self.results.glob("runs/*/*/run.json")
        return {path.parts[-3].rpartition("-")[0]: json.loads(path.read_text()) for path in paths}

    def digests(self) -> dict[str, str]:
        """Digests of what the runs and their evaluations have written, records left out: these tell times."""
        folders = ("runs/*/*/**/*", "evaluation/*/*/seed*/*.parquet")
        paths = sorted(path for of in folders for path in self.results.glob(of) if path.is_file())
        shown = [path for path in paths if not path.name.startswith(".") and path.name != "run.json"]
        return {str(path.relative_to(self.results)): hashlib.sha256(path.read_bytes()).hexdigest() for path in shown}

    def end(self) -> None:
        """End all remaining processes of the starts."""
        for process in self.started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def put_before(study: ClusterStudy, program: str, script: str) -> None:
    """Have a script stand in the place of one of Slurm's programs."""
    folder = study.folder / "bin"
    folder.mkdir(exist_ok=True)
    (folder / program).write_text(script.format(folder=folder, program=shutil.which(program)))
    (folder / program).chmod(0o755)
    study.environment["PATH"] = f"{folder}:{study.environment['PATH']}"
