"""A warm-started model of demo size, its problems, and runs of a few seconds."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from reward_ablation.config.sections.model import DemoModel, LocalModel
from reward_ablation.data.problems import PrepareSpec, prepare
from reward_ablation.spec.canonical import canonical
from reward_ablation.spec.run import RunSpec
from reward_ablation.study.core_digest import training_digest
from reward_ablation.training.around.job import TrainingJob
from specs import arm_spec
from workflow.starting import forking_python

from . import given

SPEC = {
    "components": {
        "correctness": {"function": "correctness", "parameters": {"answer_format": "hash"}},
        "format": {"function": "answer_format", "parameters": {"format": "hash"}},
        "length": {"function": "token_length", "parameters": {"target": 20, "width": 20}},
    },
    "weights": {"correctness": 1, "format": 0.5, "length": 0.3},
    "training": {
        "max_steps": 4,
        "per_device_train_batch_size": 8,
        "num_generations": 4,
        "max_completion_length": 16,
        "learning_rate": 1e-3,
        "save_strategy": "no",
    },
    "seed": 0,
}


def spec_with(**changes) -> dict:
    """The spec with keys replaced; a dict is merged into the one that is there."""
    spec = arm_spec(**copy.deepcopy(SPEC))
    for key, value in changes.items():
        spec[key] = {**spec[key], **value} if isinstance(value, dict) and isinstance(spec.get(key), dict) else value
    return arm_spec(**spec)


def train_run(*arguments) -> None:
    """`run.train_run`, whose import takes seconds."""
    from reward_ablation.training.around import run

    run.train_run(*arguments)


def job_of(spec: dict, run: Path, model: Path, problems: Path, **surroundings) -> TrainingJob:
    """A run to train in this process."""
    return TrainingJob(RunSpec.read(spec, "spec"), "code", model, problems, run, **surroundings)


def training_command(spec: dict, run: Path, model: Path, problems: Path, python: str = sys.executable) -> list[str]:
    """The command that trains a run, as the workflow gives it."""
    code = training_digest(RunSpec.read(spec, "spec").functions)
    command = [python, "-m", "reward_ablation.training", "--spec", canonical(spec), "--code", code]
    return [*command, "--model", str(model), "--problems", str(problems), "--run-dir", str(run)]


def fetched(model, folder: Path) -> Path:
    """Fetch a model into a folder."""
    from reward_ablation.models.fetch import fetch

    fetch(model, folder / "model.json")
    return folder


def make_model(folder: Path) -> Path:
    """A demo model after a short warm start: it writes words and numbers, and ends some completions."""
    return fetched(DemoModel(samples=300, steps=40), folder)


def changed_model(model: Path, folder: Path, generation: dict) -> Path:
    """Fetch a copy of a model with more in its generation config, which alone names the end token."""
    source = shutil.copytree(model, folder / "source")
    (source / "model.json").unlink()
    for name, changes in (("generation_config.json", generation), ("tokenizer_config.json", {"eos_token": None})):
        settings = {**json.loads((source / name).read_text()), **changes}
        (source / name).write_text(json.dumps({key: value for key, value in settings.items() if value is not None}))
    return fetched(LocalModel(source="local", path=str(source)), folder / "model")


def model_of_type(kind: str, demo_model: Path, folder: Path, **settings) -> Path:
    """A model of another type with random weights, and the demo model's tokenizer."""
    from transformers import AutoConfig, AutoModelForCausalLM

    from reward_ablation.models.check import file_table

    shutil.copytree(demo_model, folder, ignore=shutil.ignore_patterns("config.json"))
    tokens = {"eos_token_id": 1, "bos_token_id": 1, "pad_token_id": 0}
    config = AutoConfig.for_model(kind, vocab_size=400, **tokens, **settings)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    record = json.loads((folder / "model.json").read_text())
    record["files"] = {name: each for name, each in file_table(folder).items() if name != "model.json"}
    (folder / "model.json").write_text(json.dumps(record))
    return folder


def make_problems(path: Path) -> Path:
    """A training set of 32 problems."""
    source = {"source": "word_problems", "count": 32, "split": "train"}
    spec = PrepareSpec.model_validate({"source": source, "duplicates": "refuse", "overlap": "refuse"})
    prepare(spec, "train", path)
    return path


@pytest.fixture(scope="session")
def demo_model(tmp_path_factory) -> Path:
    return make_model(tmp_path_factory.mktemp("demo_model"))


@pytest.fixture(scope="session")
def problems(tmp_path_factory) -> Path:
    return make_problems(tmp_path_factory.mktemp("problems") / "train.parquet")


@pytest.fixture
def command(demo_model, problems):
    """`command(spec, run)` is the command that trains a run."""
    return partial(training_command, model=demo_model, problems=problems)


@pytest.fixture
def forked(demo_model, problems):
    """The same command in forks of a process with torch (`workflow.forks`), for tests that do not look at processes."""
    return partial(training_command, model=demo_model, problems=problems, python=forking_python())


@pytest.fixture
def train(demo_model, problems, tmp_path):
    """Train a run in this process: `train(name, **changes of the spec)` gives its folder."""

    def run(name: str, callbacks=(), problems=problems, model=demo_model, **changes) -> Path:
        folder = tmp_path / name / "seed0"
        train_run(job_of(spec_with(**changes), folder, model, problems), callbacks)
        return folder

    return run


@pytest.fixture(scope="session")
def trained(demo_model, problems, tmp_path_factory):
    """`trained(**changes of the spec)` is the folder of an undisturbed run, trained once and only to be read."""
    folders: dict[str, Path] = {}

    def run(**changes) -> Path:
        spec = spec_with(**changes)
        key = canonical(spec)
        if key not in folders:
            folders[key] = tmp_path_factory.mktemp("trained") / "seed0"
            train_run(job_of(spec, folders[key], demo_model, problems))
        return folders[key]

    return run


@pytest.fixture(scope="session")
def one_process(demo_model, problems, tmp_path_factory) -> Path:
    """Folder of `given.RUNS`, trained in this process."""
    folder = tmp_path_factory.mktemp("one_process")
    for name, spec in given.specs(1, spec_with).items():
        train_run(job_of(spec, folder / name, demo_model, problems))
    return folder


@pytest.fixture
def two_processes(demo_model, problems, tmp_path):
    """Train `given.RUNS` in two processes: `two_processes(launcher, packages, strategy, runs)` gives their folder.

    `launcher` is a module and its options, `packages` a folder of more packages for them.
    """

    def train(launcher: list[str], packages: str = "", strategy: str = "ddp", runs=given.RUNS) -> Path:
        own = {} if strategy == "ddp" else {"strategy": strategy}
        specs = given.specs(2, spec_with)
        chosen = {str(tmp_path / name): canonical(specs[name] | own) for name in runs}
        jobs = {"model": str(demo_model), "problems": str(problems), "runs": chosen}
        (tmp_path / "jobs.json").write_text(json.dumps(jobs))
        python = sys.executable if packages else forking_python()  # libraries look for packages at their import
        command = [python, "-m", *launcher, given.__file__, str(tmp_path / "jobs.json")]
        paths = os.pathsep.join(filter(None, [packages, os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, "PYTHONPATH": paths}
        result = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
        assert result.returncode == 0, result.stderr
        return tmp_path

    return train
