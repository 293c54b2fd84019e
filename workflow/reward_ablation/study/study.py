"""The resolved study: its arms and runs, the files that it needs, and the specs of its jobs."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from reward_ablation.config.designs import Arm
from reward_ablation.config.study_config import StudyConfig
from reward_ablation.spec.canonical import canonical, dump
from reward_ablation.spec.run import EvaluateSpec
from reward_ablation.study.claims import Claim
from reward_ablation.study.declarations import OnRecord
from reward_ablation.study.description import exported_files, summary_of
from reward_ablation.study.job_options import (
    launch_options,
    other_parameters,
    parameter_options,
    reward_model_options,
    tracking_options,
)
from reward_ablation.study.looks import LooksPlan
from reward_ablation.study.primary import Question
from reward_ablation.study.reward_models import UsedModel, model_file, sources_by_key, used_models
from reward_ablation.study.run import Run
from reward_ablation.study.run_folder import (
    DESCRIPTION,
    EarlierPaths,
    base_file,
    demonstrations_file,
    evaluation_file,
    training_file,
)
from reward_ablation.study.scoring import Scoring
from reward_ablation.study.specs_of_config import (
    data_spec,
    evaluation_spec,
    model_spec,
    sft_data_spec,
    sft_spec,
    train_data_spec,
)


@dataclass(frozen=True)
class Study:
    """A validated config with its arms and runs. Files are paths below the results folder, where nothing else is said.

    What was made of the same content is used, however the config spelled its path or name when it was made. A spec that
    a command needs has the present paths.
    """

    config: StudyConfig
    root: Path  # relative paths in the config start from this folder
    arms: dict[str, Arm]  # by name, one weight per component each
    keys: dict[str, str]  # key of each arm's spec
    folders: dict[str, str]  # folder of each key's runs
    runs: dict[str, Run]  # by name, each once: arms with the same spec share their runs
    question: Question  # what the study was made to find out
    looks: LooksPlan | None  # None if the config has a list of seeds
    claims: list[Claim]  # what the finished study judges; often none
    described: dict[str, Any]  # content of the present `study.json`, without the runs; empty if there is no such file
    on_record: OnRecord  # what was declared before this start
    warnings: list[str]  # what a user should know before paying for the runs
    diverged: dict[str, int] = field(default_factory=dict)  # step at which each run diverged, by the run's name

    @cached_property
    def results(self) -> Path:
        """The results folder."""
        return self.root / self.config.root

    @property
    def description(self) -> Path:
        """The path of `study.json`."""
        return self.results / DESCRIPTION

    @cached_property
    def sound_runs(self) -> list[str]:
        """Names of the runs that did not diverge: those that a start trains, evaluates and tabulates."""
        return [name for name in self.runs if name not in self.diverged]

    @property
    def evaluated_models(self) -> list[str]:
        """The models that are evaluated: the base model, and the final models of the runs."""
        return ["base", *self.sound_runs]

    @cached_property
    def keeping_runs(self) -> list[str]:
        """Names of the runs that keep models during training: all that did not diverge, or none."""
        return self.sound_runs if self.config.keep_models else []

    @property
    def kinds_of_answers(self) -> list[str]:
        """Endings of the names of a run's files of answers: of the final model, and of the models that it kept."""
        return ["", ".steps"] if self.config.keep_models else [""]

    @cached_property
    def _earlier(self) -> EarlierPaths:
        return EarlierPaths(self.results)

    @cached_property
    def _model(self) -> dict[str, Any]:
        return model_spec(self.config.model, self.root)

    @property
    def model_spec(self) -> str:
        """Spec of the base model, as JSON."""
        return dump(self._model)

    @cached_property
    def fetched_file(self) -> str:
        """The fetched model's record."""
        return base_file(self._earlier.as_made(self._model, base_file))

    @cached_property
    def _start_as_made(self) -> dict[str, Any]:
        spec = {"model": self._model, "sft": sft_spec(self.config, self.root).content()}
        return self._earlier.as_made(spec, base_file)

    @property
    def sft_spec(self) -> str:
        """Spec of the supervised start, as JSON, with the paths under which it was made: its record names this spec."""
        return dump(self._start_as_made["sft"])

    @cached_property
    def model_file(self) -> str:
        """Record of the model that all runs start from: the fetched model, or the model after the supervised start."""
        return base_file(self._start_as_made) if self.config.sft else self.fetched_file

    @cached_property
    def sft_data_spec(self) -> str:
        """Spec of the demonstrations, as JSON."""
        return sft_data_spec(self.config, self.root).text

    @cached_property
    def demonstrations_file(self) -> str | None:
        """The prepared demonstrations of the supervised start; None if the study has none."""
        if self.config.sft is None:
            return None
        spec = sft_data_spec(self.config, self.root).content()
        return demonstrations_file(self._earlier.as_made(spec, demonstrations_file))

    @cached_property
    def train_data_spec(self) -> str:
        """Spec of the training set, as JSON."""
        return train_data_spec(self.config, self.root).text

    @cached_property
    def problems_file(self) -> str:
        """The prepared training set."""
        spec = train_data_spec(self.config, self.root).content()
        return training_file(self._earlier.as_made(spec, training_file))

    @property
    def trained_on(self) -> list[str]:
        """The base model's record, the training set and, if the study has any, the demonstrations."""
        return [file for file in (self.model_file, self.problems_file, self.demonstrations_file) if file]

    @cached_property
    def dataset_names(self) -> list[str]:
        """Names of the evaluation sets in the config, in the order of `datasets`."""
        return list(self.config.data.evaluation)

    @cached_property
    def datasets(self) -> dict[str, str]:
        """Specs of the evaluation sets, as JSON, by `name-key`, where the key is of the paths when the set was made."""
        sources = self.config.data.evaluation.items()
        specs = {name: data_spec(self.config, source, self.root).content() for name, source in sources}
        return dict(zip(self._earlier.evaluation_sets(specs), map(dump, specs.values()), strict=True))

    @cached_property
    def evaluation_files(self) -> list[str]:
        """The prepared evaluation sets."""
        return [evaluation_file(dataset) for dataset in self.datasets]

    @cached_property
    def _evaluation_spec(self) -> EvaluateSpec:
        return evaluation_spec(self.config)

    @cached_property
    def evaluation_spec(self) -> str:
        """Spec of an evaluation, as JSON: its settings and the prompt."""
        return self._evaluation_spec.text

    @cached_property
    def answers_folder(self) -> str:
        """Folder of the answers for the present settings of evaluation. Answers for other settings stay beside it."""
        return f"evaluation/{self._evaluation_spec.key}"

    @cached_property
    def scoring(self) -> Scoring:
        """How stored answers are scored by the study's own metrics."""
        return Scoring(self.config, self.root)

    @cached_property
    def scores_folder(self) -> str | None:
        """Folder of these answers' scores by the study's own present metrics; None if it has no such metrics."""
        if not self.config.evaluation.metrics:
            return None
        return f"scores/{self._evaluation_spec.key}-{self.scoring.spec.key}"

    @cached_property
    def scores(self) -> list[str]:
        """Files of scores, one for each file of answers."""
        if self.scores_folder is None:
            return []
        names = [f"{model}/{dataset}" for model in ("base", *self.sound_runs) for dataset in self.datasets]
        names += [f"{run}/{dataset}.steps" for run in self.keeping_runs for dataset in self.datasets]
        return [f"{self.scores_folder}/{name}.parquet" for name in names]

    @cached_property
    def reward_models(self) -> dict[str, str]:
        """Sources of the reward models of components and metrics, as JSON, by the keys of their folders.

        If a component and a metric use the same model, the component's source counts, so that a metric changes no other
        job.
        """
        of_runs = (model for run in self.runs.values() for model in self.models_of_components(run).values())
        return sources_by_key([*self.scoring.models.values(), *of_runs])

    @property
    def fetched_reward_models(self) -> list[str]:
        """Records of all fetched reward models."""
        return [model_file(key) for key in self.reward_models]

    def models_of_components(self, run: Run) -> dict[str, UsedModel]:
        """The reward models that score a run, by component."""
        written = {name: self.config.components[name].parameters for name in run.arm_spec.components}
        return used_models(run.arm_spec.components, written)

    @cached_property
    def other_parameters(self) -> dict[str, dict[str, Any]]:
        """Parameters that are not part of any spec, by component. Components without such parameters are left out."""
        components = self.config.components.items()
        return other_parameters({name: (each.function, each.parameters) for name, each in components}, self.root)

    def options(self, run: Run) -> str:
        """Options of a run's training command: launch, components and experiment trackers, each after a space."""
        others = {name: each for name, each in self.other_parameters.items() if name in run.arm_spec.components}
        models = self.models_of_components(run).values()
        of_components = parameter_options(others) + reward_model_options(models, self.config.root)
        return launch_options(run.launch) + of_components + tracking_options(self.config, self.training_of(run), run)

    def training_of(self, run: Run) -> dict[str, Any]:
        """The training settings as in the config, trackers included, with the overrides of the run's arm."""
        return {**self.config.training, **self.arms[run.arm].training}

    @property
    def prompt(self) -> str:
        """How questions become prompts, as JSON."""
        variables = self.config.training.get("chat_template_kwargs") or {}
        return dump({**self.config.prompt.model_dump(), "chat_template_kwargs": variables})

    @cached_property
    def exports(self) -> list[str]:
        """Files in the layouts of other systems that the study asks for."""
        return exported_files(self.config.exports, self.sound_runs, self.dataset_names)

    @property
    def export_metadata(self) -> str:
        """Model and data for rldynamics' metadata, as JSON."""
        return dump({"model": self.summary["model"], "dataset": self.summary["training_data"]})

    #: Rules of tables without rows, as imported runs have; here none. No annotation, so that this is no field.
    empty_tables = ()

    @cached_property
    def asked_tables(self) -> list[str]:
        """Rules of the tables in `registry.ON_REQUEST`, which only some studies have, that this study has."""
        methods = any(run.arm_spec.combine for run in self.runs.values())
        problems = bool(self.config.figures.problems)
        asked = {"combination": methods, "claims": bool(self.claims), "problems": problems}
        return [rule for rule, is_asked in asked.items() if is_asked]

    @cached_property
    def summary(self) -> dict[str, Any]:
        """What stages that work on all runs need to know about the study, except the runs themselves."""
        return summary_of(self)

    @cached_property
    def digest(self) -> str:
        """Digest of the content of `study.json`, without times, and with keys in place of specs."""
        claims = [[claim.model_dump() for claim in self.claims]] if self.claims else []
        looks = [self.looks.model_dump(), self.config.arms.seeds] if self.looks else []
        diverged = [self.diverged] if self.diverged else []
        content = [self.summary, self.question.model_dump(), self.keys, self.folders, *claims, *looks, *diverged]
        return hashlib.sha256(canonical(content).encode()).hexdigest()[:16]
