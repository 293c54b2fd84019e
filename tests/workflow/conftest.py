"""Run the real workflow, as a user does, in a folder of its own."""

from __future__ import annotations

import copy
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from reward_ablation.system.locks import wait_for

from .browser import Browser, missing_programs
from .forks import BLANK
from .starting import command_line, snakemake

ROOT = Path(__file__).parents[2]

#: Every stage, in seconds: a model of demo size after a short warm start, and three training steps.
TINY = {
    "name": "tiny",
    "seeds": [0, 1],
    "model": {"source": "demo", "samples": 300, "steps": 30},
    "data": {
        "train": {"source": "word_problems", "count": 64, "split": "train"},
        "evaluation": {"test": {"source": "word_problems", "count": 12, "split": "test"}},
    },
    "prompt": {"chat": False, "template": "{question}\n"},
    "components": {
        # A number or nothing: such answers need no parser, whose import takes longer than this training.
        "correctness": {"function": "correctness", "parameters": {"answer_format": "last_number"}},
        "format": {"function": "answer_format", "parameters": {"format": "hash"}},
        "length": {"function": "token_length", "parameters": {"target": 12, "width": 12}},
    },
    "arms": {
        "design": "list",
        "arms": {
            "length": {"weights": {"length": 1}},
            "mixed": {"weights": {"correctness": 1, "format": 0.5, "length": 0.5}},
        },
    },
    "training": {
        "max_steps": 3,
        "per_device_train_batch_size": 16,
        "num_generations": 4,
        "max_completion_length": 16,
        "learning_rate": 1.0e-3,
        "save_strategy": "no",
    },
    "launch": {"gpus": 0},
    "evaluation": {"answer_format": "last_number", "samples": 2, "max_new_tokens": 16},
    "bootstrap": 200,
}


#: All that a shell, Snakemake's patterns and Slurm's names of files take for their own.
FOLDER = 'it\'s a "folder" $(touch PWNED) `touch PWNED` {run} <results> 100%j ; & * ünï'


class Study:
    """A folder with a config, and Snakemake started in it."""

    def __init__(self, folder: Path, config: dict):
        self.folder = folder
        self.config = copy.deepcopy(config)
        self.results = folder / "results" / config["name"]

    def snakemake(self, *arguments: str, config: str = "config.yaml") -> subprocess.CompletedProcess:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "config.yaml").write_text(yaml.safe_dump(self.config, sort_keys=False))
        options = ["--snakefile", str(ROOT / "Snakefile"), "--directory", str(self.folder), "--cores", "2"]
        options += ["--configfile", config, *arguments]
        return snakemake(options, self.folder, ROOT / "workflow", os.environ)

    def command(self, name: str, *options: str) -> subprocess.CompletedProcess:
        """What `reward-ablation NAME config.yaml OPTIONS` does in the folder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "config.yaml").write_text(yaml.safe_dump(self.config, sort_keys=False))
        return command_line(self.folder, ROOT / "workflow", os.environ, name, "config.yaml", *options)

    def planned(self, *targets: str) -> dict[str, int]:
        """Jobs of a dry run, by rule."""
        result = self.snakemake("--dry-run", "--", *targets)
        assert result.returncode == 0, result.stdout + result.stderr
        return jobs_of(result.stdout + result.stderr)


def jobs_of(printed: str) -> dict[str, int]:
    """Jobs by rule, of what Snakemake prints before it starts them and in a dry run."""
    table = re.search(r"^job +count\n[- ]+\n(.*?)\n\n", printed, re.DOTALL | re.MULTILINE)
    rows = [row.split() for row in table[1].splitlines()] if table else []
    return {rule: int(count) for rule, count in rows}


@pytest.fixture
def study(tmp_path):
    """A tiny study that has not been run."""
    return Study(tmp_path, TINY)


def made_once(tmp_path_factory, name: str, make: Callable[[Path], None], folder: str = "files") -> Path:
    """A folder that one of all test processes fills; each process has a copy, file times included."""
    base = tmp_path_factory.getbasetemp()
    original = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    with wait_for(original / ".lock", name):
        if not (original / "made").exists():
            assert not (original / "begun").exists(), f"{name}: failed in another test process"
            (original / "begun").touch()
            make(original / folder)
            (original / "made").touch()
        copy = tmp_path_factory.mktemp(name) / folder
        shutil.copytree(original / folder, copy)
    return copy


@pytest.fixture
def _blank_figures(monkeypatch):
    """Figures are drawn and not rendered, for tests of something else that needs them."""
    monkeypatch.setenv(BLANK, "yes")


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """The tiny study after a whole run, in a folder whose name would be a command were it not quoted."""

    def make(folder: Path) -> None:
        result = Study(folder, TINY).snakemake()
        assert result.returncode == 0, result.stdout + result.stderr
        assert "localrules directive specifies" not in result.stderr

    return Study(made_once(tmp_path_factory, "finished", make, FOLDER), TINY)


@pytest.fixture(scope="module")
def running():
    """A browser."""
    missing = missing_programs()
    if missing:
        reason = f"needs a browser (Debian: apt-get install chromium chromium-driver); not here: {', '.join(missing)}"
        (pytest.fail if os.environ.get("REWARD_ABLATION_NEED_BROWSER") else pytest.skip)(reason)
    with Browser() as browser:
        yield browser


@pytest.fixture
def server():
    """A server on this machine that notes what it is asked for."""
    asked: list[str] = []

    class Notes(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(404)
            self.end_headers()

        def log_message(self, *words):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Notes) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        running.asked, running.url = asked, f"http://127.0.0.1:{running.server_port}"
        yield running
        running.shutdown()
        thread.join()


def with_inputs_of(finished: Study, study: Study) -> Study:
    """A study whose base model and data are those of a finished one, which has the same."""
    for made in ("models", "data"):
        shutil.copytree(finished.results / made, study.results / made)
    return study
