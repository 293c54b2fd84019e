"""Run the real workflow, as a user does, in a folder of its own."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from reward_ablation.system.locks import wait_for

from .browser import Browser, missing_programs
from .forks import BLANK
from .starting import COMMAND_LINE, forking_python, run

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
    """A folder with a config, and Snakemake started in it, with the Snakefile and the library in `code`."""

    environment: Mapping[str, str] = os.environ

    def __init__(self, folder: Path, config: dict, code: Path = ROOT):
        self.folder = folder
        self.code = code
        self.config = copy.deepcopy(config)
        self.results = folder / "results" / config["name"]

    def copied(self, place: Path) -> Study:
        """A copy of the folder, file times and Snakemake's records included."""
        shutil.copytree(self.folder, place)
        return type(self)(place, self.config, self.code)

    def arguments(self, *arguments: str) -> list[str]:
        """Arguments of Snakemake; the config is written."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "config.yaml").write_text(yaml.safe_dump(self.config, sort_keys=False))
        place = ["--snakefile", str(self.code / "Snakefile"), "--directory", str(self.folder)]
        return ["--cores", "2", *arguments, *place, "--configfile", "config.yaml"]

    def snakemake(self, *arguments: str) -> subprocess.CompletedProcess:
        return run(["snakemake", *self.arguments(*arguments)], self.folder, self.code / "workflow", self.environment)

    def make(self, *arguments: str) -> str:
        """What a start prints that ends well."""
        return printed(self.snakemake(*arguments))

    def command(self, name: str, *options: str) -> subprocess.CompletedProcess:
        """What `reward-ablation NAME config.yaml OPTIONS` does in the folder."""
        self.arguments()
        words = [COMMAND_LINE, name, "config.yaml", *options]
        return run(words, self.folder, self.code / "workflow", self.environment)

    def told(self, name: str, *options: str) -> str:
        """What a command prints that ends well."""
        result = self.command(name, *options)
        printed(result)
        return result.stdout

    def plan(self) -> str:
        return self.told("plan", "--quick")

    @contextmanager
    def running(self, *words: str) -> Iterator[subprocess.Popen]:
        """`python -m WORDS` while it runs, its output in `log`; killed at the end, with its jobs, as by a power cut."""
        self.log = self.folder / "log"
        with self.log.open("w") as log:
            process = subprocess.Popen(
                [forking_python(), "-m", *words],
                cwd=self.folder,
                env={**self.environment, "PYTHONPATH": str(self.code / "workflow")},
                start_new_session=True,
                stdout=log,
                stderr=log,
            )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def planned(self, *arguments: str) -> dict[str, int]:
        """Jobs of a dry run, by rule; the target `all` is none."""
        return jobs_of(self.make("--dry-run", *arguments))

    def set(self, path: str, value: object) -> None:
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

    def models(self) -> dict[str, tuple[int, int]]:
        """The identity of each run's model file. Another training makes another file, even with the same bytes."""
        files = sorted(self.results.glob("runs/*/*/model/model.safetensors"))
        states = {str(file.parents[1].relative_to(self.results / "runs")): file.stat() for file in files}
        return {name: (state.st_ino, state.st_mtime_ns) for name, state in states.items()}

    def described(self) -> dict:
        """What study.json says."""
        return json.loads((self.results / "study.json").read_text())


def config(path: str, value: object) -> Callable[[Study], None]:
    """An edit of the config, for tables of edits."""
    return lambda study: study.set(path, value)


def text(file: str, old: str, new: str) -> Callable[[Study], None]:
    """An edit of a file, for tables of edits."""
    return lambda study: study.replace(file, old, new)


def printed(result: subprocess.CompletedProcess) -> str:
    """All that a process has printed, which must have ended well."""
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


def refusal(result: subprocess.CompletedProcess) -> str:
    """The one line of error of a start or a command that is refused."""
    assert result.returncode == 1, result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    # Errors of jobs are told once more when the start ends, with the log.
    [line] = [line for line in result.stderr.splitlines() if line.startswith("error: ") and "; log: " not in line]
    return line


def jobs_of(words: str) -> dict[str, int]:
    """Jobs by rule, of what Snakemake prints before it starts them and in a dry run; the target `all` is none."""
    table = re.search(r"^job +count\n[- ]+\n(.*?)\n\n", words, re.DOTALL | re.MULTILINE)
    rows = [row.split() for row in table[1].splitlines()] if table else []
    return {rule: int(count) for rule, count in rows if rule not in ("all", "total")}


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
        assert "localrules directive specifies" not in Study(folder, TINY).make()

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
