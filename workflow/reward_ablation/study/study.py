"""The resolved study: its arms, its runs, and what each rule of the workflow needs to know of it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from reward_ablation.config.designs import Arm
from reward_ablation.config.study_config import StudyConfig
from reward_ablation.config.tracking import tracking_in
from reward_ablation.spec.canonical import canonical, dump
from reward_ablation.spec.parts import TrainDataSpec
from reward_ablation.spec.run import EvaluateSpec, SftSpec
from reward_ablation.study.claims import (
    Claim,
    ClaimsOnRecord,
    declared_claims,
    read_recorded_claims,
    recorded_claims,
    with_recovered,
)
from reward_ablation.study.code_digest import code_digest
from reward_ablation.study.core_digest import STAGES, deciding_digest
from reward_ablation.study.description import described_runs, diverged_runs, exported_files, summary_of
from reward_ablation.study.job_options import (
    JobResources,
    launch_options,
    other_parameters,
    parameter_options,
    reward_model_options,
    tracking_options,
)
from reward_ablation.study.looks import (
    LooksPlan,
    Sequential,
    declared_looks,
    read_recorded_looks,
    recorded_looks,
    recovered_looks,
)
from reward_ablation.study.places import Places, base_file, demonstrations_file, training_file
from reward_ablation.study.primary import (
    Primary,
    Question,
    declare_primary,
    read_recorded,
    recorded_primary,
    recovered_primary,
)
from reward_ablation.study.reward_models import UsedModel, model_file, sources_by_key, used_models
from reward_ablation.study.run import Run
from reward_ablation.study.run_folder import DESCRIPTION
from reward_ablation.study.scoring import Scoring
from reward_ablation.study.specs_of_config import (
    data_spec,
    evaluation_spec,
    layout_of,
    model_spec,
    sft_data_spec,
    sft_spec,
    train_data_spec,
)
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import write_json

#: Folder of the tables and figures of what is finished, below a study's results folder.
PREVIEW = "preview"

#: Folders of a study below its results folder.
FOLDERS = (
    *("benchmarks", "data", "design", "evaluation", "exports", "figures", "logs", "models", PREVIEW, "report", "runs"),
    "scores",
    "tables",
)


@dataclass(frozen=True)
class Study:
    """A validated config with its arms and runs.

    The methods that take Snakemake's wildcards are params of rules, and each returns one string. They are methods
    because Snakemake would expand the braces in a plain string of JSON.
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
    warnings: list[str]  # what a user should know before paying for the runs
    diverged: dict[str, int] = field(default_factory=dict)  # step at which each run diverged, by the run's name

    @cached_property
    def sound_runs(self) -> list[str]:
        """Names of the runs that did not diverge: those that a start trains, evaluates and tabulates."""
        return [name for name in self.runs if name not in self.diverged]

    @property
    def evaluated_models(self) -> list[str]:
        """The models that are evaluated: the base model, and the final models of the runs."""
        return ["base", *self.sound_runs]

    @cached_property
    def _places(self) -> Places:
        return Places(self.root / self.config.root)

    @cached_property
    def fetched_file(self) -> str:
        """The fetched model's record. Like all paths here, it is below the results folder.

        A fetched model or prepared set of the same content is used, however the config spelled its path or name when it
        was made.
        """
        return base_file(self._model_as_made)

    @cached_property
    def model_file(self) -> str:
        """Record of the model that all runs start from: the fetched model, or the model after the supervised start."""
        if self.config.sft is None:
            return self.fetched_file
        return base_file(self._start_as_made)

    @cached_property
    def demonstrations_file(self) -> str | None:
        """The prepared demonstrations of the supervised start; None if the study has none."""
        if self.config.sft is None:
            return None
        return demonstrations_file(self._demonstrations_as_made)

    @cached_property
    def problems_file(self) -> str:
        """The prepared training set."""
        return training_file(self._training_set_as_made)

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

    def reward_model_files(self, run: str) -> dict[str, str]:
        """Record of each fetched reward model that scores a run, by the name that components use for the model."""
        return {model.reference: model.file for model in self.models_of_components(self.runs[run]).values()}

    @property
    def trained_on(self) -> list[str]:
        """The base model's record, the training set and, if the study has any, the demonstrations."""
        return [file for file in (self.model_file, self.problems_file, self.demonstrations_file) if file]

    @cached_property
    def datasets(self) -> dict[str, str]:
        """Evaluation sets by `name-key`, with their specs."""
        return dict(zip(self._sets_as_made, map(dump, self._evaluation_sets.values()), strict=True))

    @cached_property
    def _evaluation_sets(self) -> dict[str, dict[str, Any]]:
        """The specs of the evaluation sets by their names in the config."""
        evaluation = self.config.data.evaluation
        return {name: data_spec(self.config, source, self.root).content() for name, source in evaluation.items()}

    @cached_property
    def _sets_as_made(self) -> dict[str, dict[str, Any]]:
        return self._places.evaluation_sets(self._evaluation_sets)

    @cached_property
    def answers_folder(self) -> str:
        """Folder of the answers for the present settings of evaluation. Answers for other settings stay beside it."""
        return f"evaluation/{self._evaluation_spec.key}"

    @cached_property
    def scores_folder(self) -> str | None:
        """Folder of these answers' scores by the study's own present metrics; None if it has no such metrics."""
        if not self.config.evaluation.metrics:
            return None
        return f"scores/{self._evaluation_spec.key}-{self.scoring.spec.key}"

    @cached_property
    def scoring(self) -> Scoring:
        """How stored answers are scored by the study's own metrics."""
        return Scoring(self.config, self.root)

    @cached_property
    def scores(self) -> list[str]:
        """Files of scores, one for each file of answers."""
        if self.scores_folder is None:
            return []
        kinds = [
            *((model, "") for model in ("base", *self.sound_runs)),
            *((run, ".steps") for run in self.keeping_runs),
        ]
        return [f"{self.scores_folder}/{model}/{name}{kind}.parquet" for model, kind in kinds for name in self.datasets]

    @cached_property
    def keeping_runs(self) -> list[str]:
        """Names of the runs that keep models during training: all that did not diverge, or none."""
        return self.sound_runs if self.config.keep_models else []

    @property
    def kinds_of_answers(self) -> list[str]:
        """Endings of the names of a run's files of answers: of the final model, and of the models that it kept."""
        return ["", ".steps"] if self.config.keep_models else [""]

    @cached_property
    def dataset_names(self) -> list[str]:
        """Names of the evaluation sets in the config, in the order of `datasets`."""
        return list(self.config.data.evaluation)

    @cached_property
    def exports(self) -> list[str]:
        """Files in the layouts of other systems that the study asks for."""
        return exported_files(self.config.exports, self.sound_runs, self.dataset_names)

    def export_metadata(self, wildcards: Any) -> str:
        """Model and data for rldynamics' metadata, as JSON."""
        return dump({"model": self.summary["model"], "dataset": self.summary["training_data"]})

    def spec_of_run(self, wildcards: Any) -> str:
        """Canonical spec of the run that the wildcard names."""
        return self._run(wildcards).spec

    def code_of_run(self, wildcards: Any) -> str:
        """Digest of the code that decides the numbers of the run that the wildcard names."""
        return self._run(wildcards).code

    @cached_property
    def resources(self) -> JobResources:
        """What jobs ask Snakemake for."""
        return JobResources(self.config.launch, self.runs)

    def threads_of_run(self, wildcards: Any) -> int:
        """CPU threads of a run on each of its nodes."""
        launch = self._run(wildcards).launch
        return launch.process_count // launch.nodes * launch.threads

    def options_of_run(self, wildcards: Any, output: Any) -> str:
        """The `options` of the training command, for the run that the wildcard names.

        None of these options is a reason to train again. This function therefore takes `output`: Snakemake does not
        compare such a param with its record.
        """
        return self.options(self._run(wildcards))

    def options(self, run: Run) -> str:
        """Options of a run's training command: launch, components and experiment trackers, each after a space."""
        others = {name: each for name, each in self.other_parameters.items() if name in run.arm_spec.components}
        models = self.models_of_components(run).values()
        of_components = parameter_options(others) + reward_model_options(models, self.config.root)
        return launch_options(run.launch) + of_components + tracking_options(self.config, self._training(run), run)

    @cached_property
    def other_parameters(self) -> dict[str, dict[str, Any]]:
        """Parameters that are not part of any spec, by component. Components without such parameters are left out."""
        components = self.config.components.items()
        return other_parameters({name: (each.function, each.parameters) for name, each in components}, self.root)

    def _tracking(self, run: Run) -> dict[str, Any]:
        return tracking_in(self._training(run))

    def _training(self, run: Run) -> dict[str, Any]:
        """The training settings as in the config, with the overrides of the run's arm."""
        return {**self.config.training, **self.arms[run.arm].training}

    def _run(self, wildcards: Any) -> Run:
        if wildcards.run not in self.runs:
            raise StudyError(f"{wildcards.run}: no run of this study; its runs are listed by `snakemake -n`")
        return self.runs[wildcards.run]

    # A spec that a command needs has the present paths. Names of files have the paths under which these were made.

    def model_spec(self, wildcards: Any, output: Any = None) -> str:
        """Spec of the base model."""
        return dump(self._model_spec)

    def prompt_of_study(self, wildcards: Any, output: Any) -> str:
        """How questions become prompts, as JSON. A prompt that changes is no reason to fetch the model again."""
        variables = self.config.training.get("chat_template_kwargs") or {}
        return dump({**self.config.prompt.model_dump(), "chat_template_kwargs": variables})

    def reward_model_spec(self, wildcards: Any, output: Any = None) -> str:
        """Source of the reward model that the wildcard names by its key."""
        return self.reward_models[wildcards.reward_model]

    def sft_spec(self, wildcards: Any) -> str:
        """Spec of the supervised start, with the paths under which it was made."""
        return dump(self._start_as_made["sft"])

    def sft_data_spec(self, wildcards: Any, output: Any = None) -> str:
        """Spec of the demonstrations."""
        return sft_data_spec(self.config, self.root).text

    def train_data_spec(self, wildcards: Any, output: Any = None) -> str:
        """Spec of the training set."""
        return self._train_data_spec.text

    def evaluation_data_spec(self, wildcards: Any, output: Any = None) -> str:
        """Spec of the evaluation set that the wildcard dataset names."""
        return self.datasets[wildcards.dataset]

    def evaluation_spec(self, wildcards: Any) -> str:
        """Spec of an evaluation: its settings and the prompt."""
        return self._evaluation_text

    def scores_spec(self, wildcards: Any) -> str:
        """Spec of scores: the study's own metrics."""
        return self.scoring.spec.text

    def options_of_scores(self, wildcards: Any, output: Any) -> str:
        """Options of the scoring command; for the argument `output` see `options_of_run`."""
        return self.scoring.options

    @property
    def functions(self) -> list[str]:
        """Functions of all components."""
        return [component.function for component in self.config.components.values()]

    @cached_property
    def _model_spec(self) -> dict[str, Any]:
        return model_spec(self.config.model, self.root)

    @cached_property
    def _model_as_made(self) -> dict[str, Any]:
        return self._places.as_made(self._model_spec, base_file)

    @cached_property
    def _start_as_made(self) -> dict[str, Any]:
        return self._places.as_made({"model": self._model_spec, "sft": self._sft_spec.content()}, base_file)

    @cached_property
    def _demonstrations_as_made(self) -> dict[str, Any]:
        return self._places.as_made(sft_data_spec(self.config, self.root).content(), demonstrations_file)

    @cached_property
    def _training_set_as_made(self) -> dict[str, Any]:
        return self._places.as_made(self._train_data_spec.content(), training_file)

    @cached_property
    def _sft_spec(self) -> SftSpec:
        return sft_spec(self.config, self.root)

    @cached_property
    def _train_data_spec(self) -> TrainDataSpec:
        return train_data_spec(self.config, self.root)

    @cached_property
    def _evaluation_spec(self) -> EvaluateSpec:
        return evaluation_spec(self.config)

    @cached_property
    def _evaluation_text(self) -> str:
        return self._evaluation_spec.text

    @staticmethod
    def code_of(*stages: str) -> str:
        """Digest of the code of one or more stages.

        For stages that cost GPU hours, the digest covers only code that decides results, not launching or logging.
        """
        if stages[0] in STAGES:
            return deciding_digest(*stages)
        return code_digest(*(f"reward_ablation.{stage}" for stage in stages))

    @cached_property
    def summary(self) -> dict[str, Any]:
        """What stages that work on all runs need to know about the study, except the runs themselves."""
        return summary_of(self)

    @cached_property
    def digest(self) -> str:
        """Digest of the content that `describe` writes, without times, and with keys in place of specs."""
        claims = [[claim.model_dump() for claim in self.claims]] if self.claims else []
        looks = [self.looks.model_dump(), self.config.arms.seeds] if self.looks else []
        diverged = [self.diverged] if self.diverged else []
        content = [self.summary, self.question.model_dump(), self.keys, self.folders, *claims, *looks, *diverged]
        return hashlib.sha256(canonical(content).encode()).hexdigest()[:16]

    #: Rules of tables without rows, as imported runs have; here none. No annotation, so that this is no field.
    empty_tables = ()

    @cached_property
    def asked_tables(self) -> list[str]:
        """Rules of the tables in `registry.ON_REQUEST`, which only some studies have, that this study has."""
        methods = any(run.arm_spec.combine for run in self.runs.values())
        problems = bool(self.config.figures.problems)
        asked = {"combination": methods, "claims": bool(self.claims), "problems": problems}
        return [rule for rule, is_asked in asked.items() if is_asked]

    @property
    def description(self) -> Path:
        """The path of `study.json`."""
        return self.root / self.config.root / DESCRIPTION

    @property
    def _runs_folder(self) -> Path:
        return self.description.with_name("runs")

    @cached_property
    def known_primary(self) -> Primary | None:
        """The declaration that is on record: in `study.json` or, if that is lost, in the records of runs."""
        return recorded_primary(self.described) or recovered_primary(self.question, self._runs_folder)

    @cached_property
    def primary(self) -> Primary:
        """Declaration of the primary question: the one on record or, if the question changed, the next one."""
        return declare_primary(self.question, self.known_primary, self._runs_folder)

    @property
    def declares(self) -> bool:
        """Whether `study.json` lacks the declaration."""
        there = recorded_primary(self.described)
        return there is None or not there.declares(self.question)

    @cached_property
    def known_claims(self) -> ClaimsOnRecord:
        """The claims that are on record: in `study.json` or, if that is lost, in the records of runs."""
        return with_recovered(recorded_claims(self.described), self.claims, self._runs_folder)

    @cached_property
    def known_looks(self) -> Sequential | None:
        """The record of the looks: in `study.json` or, if that is lost, in the records of runs, without the looks."""
        return recorded_looks(self.described) or recovered_looks(self.looks, self._runs_folder)

    @cached_property
    def sequential(self) -> Sequential | None:
        """Record of the looks: the one on file or the next one; None if the study was never sequential."""
        return declared_looks(self.looks, self.known_looks, self._runs_folder)

    @property
    def declares_looks(self) -> bool:
        """Whether `study.json` lacks the looks."""
        there = recorded_looks(self.described)
        return self.looks is not None and (there is None or there.key != self.looks.key)

    @property
    def look_is_due(self) -> bool:
        """Whether this study is sequential and a look is left to take."""
        return self.looks is not None and self.sequential is not None and self.sequential.next_look is not None

    def describe(self, path: str | Path, log: str | Path) -> None:
        """Write `study.json` by `write_description`, and the numbers of arms and runs and the warnings to the log."""
        self.write_description(Path(path))
        lines = [f"arms: {len(self.arms)}, runs: {len(self.runs)}", *self.warnings]
        Path(log).write_text("\n".join(lines) + "\n")

    def write_description(self, path: Path) -> Primary:
        """Write `study.json`: the summary, the primary question, claims, looks, and each run of each arm.

        A question, claim or plan of looks that the present file declares keeps its time, so that an unchanged study has
        an unchanged file. Returns the question that the file now declares.
        """
        runs = path.with_name("runs")
        primary_before = read_recorded(path) or recovered_primary(self.question, runs)
        primary = declare_primary(self.question, primary_before, runs)
        claims_before = with_recovered(read_recorded_claims(path), self.claims, runs)
        claims = declared_claims(self.claims, claims_before, runs)
        sequential = declared_looks(self.looks, read_recorded_looks(path) or recovered_looks(self.looks, runs), runs)
        looks = {} if sequential is None else {"sequential": sequential.model_dump()}
        declarations = {"primary": primary.model_dump(), **claims.content(), **looks, "digest": self.digest}
        write_json({**self.summary, **declarations, "runs": described_runs(self), **diverged_runs(self)}, path)
        return primary

    @property
    def training_settings(self) -> list[str]:
        """Canonical JSON of each distinct set of settings, for `reward_ablation.start.ask_trl`."""
        asked = [({**run.arm_spec.training, **self._tracking(run)}, run.launch) for run in self.runs.values()]
        settings = {canonical({"training": own, "layout": layout_of(launch).content()}) for own, launch in asked}
        if self.config.sft:
            settings.add(canonical({"sft": self.config.sft.training, "gpus": self.config.launch.gpus}))
        return sorted(settings)
