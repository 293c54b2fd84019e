"""The resolved study: its arms, its runs, and what each rule of the workflow needs to know of it."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from reward_ablation.study.code_digest import code_digest
from reward_ablation.study.config import StudyConfig
from reward_ablation.study.designs import Arm
from reward_ablation.study.errors import StudyError
from reward_ablation.study.files import write_json
from reward_ablation.study.spec import canonical, data_spec, dump, key_of, model_spec, normalised, train_data_spec


@dataclass(frozen=True)
class Run:
    """One arm with one seed: the unit that is trained."""

    arm: str
    key: str
    seed: int
    spec: str

    @property
    def name(self) -> str:
        """`{arm}-{key}/seed{seed}`, the run's folder below `runs/`."""
        return f"{self.arm}-{self.key}/seed{self.seed}"


def owners_of(keys: dict[str, str]) -> dict[str, str]:
    """The arm that owns the runs of each key: the first, where arms have the same spec."""
    return {key: arm for arm, key in reversed(keys.items())}


@dataclass(frozen=True)
class Study:
    """A validated config with its arms and runs.

    The methods that take Snakemake's wildcards are params of rules: each gives one string. (A plain
    string with braces, as JSON is, would be expanded by Snakemake.)

    Attributes
    ----------
    config : StudyConfig
    root : Path
        Folder that relative paths in the config start from.
    arms : dict of str to Arm
        Arms by name, one weight per component each.
    keys : dict of str to str
        Key of each arm's spec.
    runs : dict of str to Run
        Runs by name, each once: arms with the same spec share theirs.
    train_code : str
        Digest of the code that trains a run, the components' included.
    warnings : list of str
        What a user should know before paying for the runs.
    """

    config: StudyConfig
    root: Path
    arms: dict[str, Arm]
    keys: dict[str, str]
    runs: dict[str, Run]
    train_code: str
    warnings: list[str]

    @cached_property
    def model_file(self) -> str:
        """The base model's record; like all paths here below the study's folder, and keyed by content."""
        return f"models/base-{key_of(self._model_spec)}/model.json"

    @cached_property
    def problems_file(self) -> str:
        """The prepared training set."""
        return f"data/train-{key_of(self._train_data_spec)}.parquet"

    @cached_property
    def datasets(self) -> dict[str, str]:
        """Evaluation sets by `name-key`, with their specs."""
        data = self.config.data
        specs = {
            name: normalised({"source": data_spec(source, self.root), "duplicates": data.duplicates})
            for name, source in data.evaluation.items()
        }
        return {f"{name}-{key_of(spec)}": dump(spec) for name, spec in specs.items()}

    @cached_property
    def answers_folder(self) -> str:
        """Answers under the present evaluation settings: those under other settings stay beside them."""
        return f"evaluation/{key_of(self._evaluation_spec)}"

    def spec_of_run(self, wildcards: Any) -> str:
        """Canonical spec of the run that the wildcard names."""
        if wildcards.run not in self.runs:
            raise StudyError(f"{wildcards.run}: no run of this study; its runs are listed by `snakemake -n`")
        return self.runs[wildcards.run].spec

    def model_spec(self, wildcards: Any) -> str:
        """Spec of the base model."""
        return dump(self._model_spec)

    def train_data_spec(self, wildcards: Any) -> str:
        """Spec of the training set."""
        return dump(self._train_data_spec)

    def evaluation_data_spec(self, wildcards: Any) -> str:
        """Spec of the evaluation set that the wildcard dataset names."""
        return self.datasets[wildcards.dataset]

    def evaluation_spec(self, wildcards: Any) -> str:
        """Spec of an evaluation: its settings and the prompt."""
        return dump(self._evaluation_spec)

    @cached_property
    def _model_spec(self) -> dict[str, Any]:
        return normalised(model_spec(self.config.model, self.root))

    @cached_property
    def _train_data_spec(self) -> dict[str, Any]:
        return train_data_spec(self.config, self.root)

    @cached_property
    def _evaluation_spec(self) -> dict[str, Any]:
        config = self.config
        device = "cuda" if config.launch.gpus else "cpu"
        return normalised(
            {"evaluation": config.evaluation.model_dump(), "prompt": config.prompt.model_dump(), "device": device}
        )

    def code_of(self, stage: str) -> str:
        """Digest of a stage's code."""
        return code_digest(f"reward_ablation.{stage}")

    @cached_property
    def summary(self) -> dict[str, Any]:
        """What stages that look at all runs need to know, but for the runs themselves."""
        config = self.config
        return {
            "name": config.name,
            "design": config.arms.design,
            "components": list(config.components),
            "arms": [{"name": name, "weights": arm.weights} for name, arm in self.arms.items()],
            "baseline": config.baseline or next(iter(self.arms)),
            "seeds": config.seeds,
            "datasets": list(config.data.evaluation),
            "answers": {
                dataset.rpartition("-")[0]: f"{self.answers_folder}/{{run}}/{dataset}.parquet"
                for dataset in self.datasets
            },
            "inputs": {"model": self.model_file, "problems": self.problems_file},
            "bootstrap": config.bootstrap,
            "confidence": config.confidence,
            "model": _title(config.model.model_dump()),
            "training_data": _title(config.data.train.model_dump()),
        }

    @cached_property
    def digest(self) -> str:
        """Digest of what `describe` writes; a key stands for its spec."""
        return hashlib.sha256(canonical([self.summary, self.keys]).encode()).hexdigest()[:16]

    def describe(self, path: str, log: str) -> None:
        """Write `study.json`: the summary, and each run of each arm with its spec; to the log what to expect."""
        owners = owners_of(self.keys)
        runs = []
        for arm, key in self.keys.items():
            for seed in self.config.seeds:
                run = self.runs[f"{owners[key]}-{key}/seed{seed}"]
                spec = {name: value for name, value in json.loads(run.spec).items() if name != "seed"}
                runs.append({"arm": arm, "key": key, "seed": seed, "folder": f"runs/{run.name}", "spec": spec})
        write_json({**self.summary, "runs": runs}, path)
        lines = [f"{len(self.arms)} arms, {len(self.runs)} runs", *self.warnings]
        Path(log).write_text("\n".join(lines) + "\n")

    def check_training_settings(self) -> None:
        """Have TRL check every distinct set of training settings, in a process of its own.

        Raises
        ------
        StudyError
            TRL refuses one.
        """
        settings = {canonical({**self.config.training, **arm.training}) for arm in self.arms.values()}
        command = [sys.executable, "-m", "reward_ablation.training.check", "--gpus", str(self.config.launch.gpus)]
        result = subprocess.run(command, input="\n".join(sorted(settings)), text=True, capture_output=True)
        if result.returncode:
            last_line = (result.stderr.strip().splitlines() or ["the check of the training settings died"])[-1]
            raise StudyError(last_line.removeprefix("error: "))


def _title(source: dict[str, Any]) -> str:
    """A source in a few words, such as `gsm8k train` or `Qwen/Qwen2.5-1.5B-Instruct`."""
    what = source.get("id") or source.get("path") or source["source"]
    return f"{what} {source['split']}" if source.get("split") else str(what)
