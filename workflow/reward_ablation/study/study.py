"""The resolved study as data: its arms and runs, specs and files of its jobs, and its summary for later stages.

`study.resolve` makes it. The Snakefile, its rules and the commands read it. Later stages, which read files alone, get
its summary in `study.json`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reward_ablation.config.designs import Arm, ListDesign
from reward_ablation.config.sections.launch import Launch
from reward_ablation.config.sections.training import AGGREGATION, TRL_AGGREGATIONS
from reward_ablation.config.study_config import StudyConfig
from reward_ablation.spec.canonical import canonical, dump, key_of
from reward_ablation.spec.run import ArmSpec
from reward_ablation.study.claims import Claim
from reward_ablation.study.declarations import OnRecord
from reward_ablation.study.looks import LooksPlan
from reward_ablation.study.primary import Question
from reward_ablation.study.reward_models import model_file
from reward_ablation.study.run_folder import DESCRIPTION, evaluation_file
from reward_ablation.study.shown_paths import shown_path

if TYPE_CHECKING:  # it imports the grader
    from reward_ablation.study.scoring import Scoring


@dataclass(frozen=True)
class Run:
    """One arm with one seed: the unit that is trained."""

    arm: str  # the first of the arms that have the run's spec
    key: str  # key of the arm's spec
    seed: int
    spec: str  # as canonical JSON: the rule's param
    arm_spec: ArmSpec  # the spec without the seed
    folder: str  # `{arm}-{key}`, with an earlier arm's name if the runs of this spec were trained under it
    launch: Launch
    code: str  # digest of the code that decides the run's numbers: of the core, and of the components that score it
    options: str  # of the training command: launch, components and experiment trackers, each after a space
    reward_models: list[str]  # records of the fetched models that score the run

    @property
    def name(self) -> str:
        """`{folder}/seed{seed}`, the run's folder below `runs/`."""
        return f"{self.folder}/seed{self.seed}"


@dataclass(frozen=True)
class Study:
    """A validated config with its arms and runs. Specs are JSON; files are paths below the results folder."""

    config: StudyConfig
    root: Path  # relative paths in the config start from this folder
    arms: dict[str, Arm]  # by name, one weight per component each
    keys: dict[str, str]  # key of each arm's spec
    folders: dict[str, str]  # folder of each key's runs
    runs: dict[str, Run]  # by name, each once: arms with the same spec share their runs
    model_spec: str  # of the base model
    fetched_file: str  # the fetched model's record
    model_file: str  # record of the model that all runs start from: fetched, or after the supervised start
    sft_spec: str | None  # with the paths under which the start was made: its record names this spec; None without one
    sft_data_spec: str | None
    demonstrations_file: str | None  # the prepared demonstrations of the supervised start
    train_data_spec: str
    problems_file: str  # the prepared training set
    datasets: dict[str, str]  # specs of the evaluation sets, by `name-key`: the key of the paths when the set was made
    evaluation_spec: str  # settings of evaluation, and the prompt
    answers_folder: str  # for the present settings of evaluation; answers for other settings stay beside it
    scoring: Scoring  # of stored answers by the study's own metrics
    scores_folder: str | None  # of these answers' scores by the present metrics; None if the study has none of its own
    reward_models: dict[str, str]  # sources of components' and metrics' reward models, by their folders' keys
    other_parameters: dict[str, dict[str, Any]]  # that are part of no spec, by component
    question: Question  # what the study was made to find out
    looks: LooksPlan | None  # None if the config has a list of seeds
    claims: list[Claim]  # what the finished study judges; often none
    described: dict[str, Any]  # content of the present `study.json`, without the runs; empty if there is no such file
    on_record: OnRecord  # what was declared before this start
    warnings: list[str]  # what a user should know before paying for the runs
    diverged: dict[str, int] = field(default_factory=dict)  # step at which each run diverged, by the run's name

    #: Rules of tables without rows, as imported runs have; here none. No annotation, so that this is no field.
    empty_tables = ()

    @property
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

    @property
    def keeping_runs(self) -> list[str]:
        """Names of the runs that keep models during training: all that did not diverge, or none."""
        return self.sound_runs if self.config.keep_models else []

    @property
    def kinds_of_answers(self) -> list[str]:
        """Endings of the names of a run's files of answers: of the final model, and of the models that it kept."""
        return ["", ".steps"] if self.config.keep_models else [""]

    @property
    def trained_on(self) -> list[str]:
        """The base model's record, the training set and, if the study has any, the demonstrations."""
        return [file for file in (self.model_file, self.problems_file, self.demonstrations_file) if file]

    @property
    def evaluation_files(self) -> list[str]:
        """The prepared evaluation sets."""
        return [evaluation_file(dataset) for dataset in self.datasets]

    @cached_property
    def scores(self) -> list[str]:
        """Files of scores, one for each file of answers."""
        if self.scores_folder is None:
            return []
        names = [f"{model}/{dataset}" for model in self.evaluated_models for dataset in self.datasets]
        names += [f"{run}/{dataset}.steps" for run in self.keeping_runs for dataset in self.datasets]
        return [f"{self.scores_folder}/{name}.parquet" for name in names]

    @property
    def fetched_reward_models(self) -> list[str]:
        """Records of all fetched reward models."""
        return [model_file(key) for key in self.reward_models]

    @property
    def prompt(self) -> str:
        """How questions become prompts, as JSON."""
        return dump({**self.config.prompt.model_dump(), "chat_template_kwargs": self.config.chat_template_kwargs})

    @cached_property
    def asked_tables(self) -> list[str]:
        """Rules of the tables in `registry.ON_REQUEST`, which only some studies have, that this study has."""
        methods = any(run.arm_spec.combine for run in self.runs.values())
        asked = {"combination": methods, "claims": self.claims}
        return [rule for rule, is_asked in asked.items() if is_asked]

    @cached_property
    def dataset_names(self) -> dict[str, str]:
        """Names of the evaluation sets in the config, by name and key."""
        return dict(zip(self.datasets, self.config.data.evaluation, strict=True))

    @cached_property
    def summary(self) -> dict[str, Any]:
        """What stages that work on all runs need to know about the study, except the runs themselves."""
        config, methods = self.config, _methods_of(self)
        datasets = list(zip(config.data.evaluation, self.datasets, strict=True))
        extra = {} if isinstance(config.arms, ListDesign) else config.arms.extra
        return {
            "name": config.name,
            "design": config.arms.design,
            "components": list(config.components),
            "arms": [
                {
                    "name": name,
                    "weights": arm.weights,
                    **methods.get(name, {}),
                    **({"extra": True} if name in extra else {}),
                }
                for name, arm in self.arms.items()
            ],
            "baseline": config.baseline or next(iter(self.arms)),
            "control": config.control,
            "seeds": config.seeds_in_order(self.arms),
            "datasets": list(config.data.evaluation),
            "answers": {name: f"{self.answers_folder}/{{run}}/{dataset}.parquet" for name, dataset in datasets},
            "scores": {name: f"{self.scores_folder}/{{run}}/{dataset}.parquet" for name, dataset in datasets}
            if self.scores_folder
            else {},
            **({"scoring_gpus": self.scoring.gpus} if self.scores_folder and self.scoring.gpus else {}),
            "mathematics": config.evaluation.answer_format is not None,
            "metrics": [
                {"name": name, "range": metric.range, "higher_is_better": metric.higher_is_better}
                for name, metric in config.evaluation.metrics.items()
            ],
            "questions": {name: evaluation_file(dataset) for name, dataset in datasets},
            "keep_models": config.keep_models,
            "inputs": {"model": self.model_file, "problems": self.problems_file},
            "bootstrap": config.bootstrap,
            "confidence": config.confidence,
            **config.statistics.model_dump(),
            "model": title_of(config.model.model_dump(), self.root)
            + (f", fine-tuned on {title_of(config.sft.data.model_dump(), self.root)}" if config.sft else ""),
            "training_data": title_of(config.data.train.model_dump(), self.root),
        }

    @cached_property
    def digest(self) -> str:
        """Digest of the content of `study.json`, without times, and with keys in place of specs."""
        claims = [[claim.model_dump() for claim in self.claims]] if self.claims else []
        looks = [self.looks.model_dump(), self.config.arms.seeds] if self.looks else []
        diverged = [self.diverged] if self.diverged else []
        question = self.question.model_dump(exclude={"arms"})  # whose keys are here already
        content = [self.summary, question, self.keys, self.folders, *claims, *looks, *diverged]
        return hashlib.sha256(canonical(content).encode()).hexdigest()[:16]

    @property
    def digest_of_keys(self) -> str:
        """Digest of the keys, which follow from the config and from the contents of the study's files."""
        folders = {"answers": self.answers_folder, "scores": self.scores_folder}
        return key_of({"arms": self.keys, "sets": [*self.datasets], **folders})


def _methods_of(study: Study) -> dict[str, dict[str, str]]:
    """The method of combination of each arm; empty if no arm of the config sets one."""
    if not any(arm.combine for arm in study.config.expanded_arms().values()):
        return {}
    trl = {aggregation: method for method, aggregation in TRL_AGGREGATIONS.items()}
    methods = {}
    for name, arm in study.arms.items():
        aggregation = study.config.training_of(arm).get(AGGREGATION, TRL_AGGREGATIONS["weighted_sum"])
        spec = study.runs[f"{study.folders[study.keys[name]]}/seed{study.config.seeds_of(name)[0]}"].arm_spec.combine
        methods[name] = {"combine": spec.title if spec else trl[aggregation]}
    return methods


def described_runs(study: Study) -> list[dict[str, Any]]:
    """Each run of each arm, with its spec. Arms with the same spec share their runs."""
    runs = []
    for arm, key in study.keys.items():
        seeds = study.config.seeds_of(arm)
        spec = study.runs[f"{study.folders[key]}/seed{seeds[0]}"].arm_spec.content()
        for seed in seeds:
            run = study.runs[f"{study.folders[key]}/seed{seed}"]
            runs.append({"arm": arm, "key": key, "seed": seed, "folder": f"runs/{run.name}", "spec": spec})
    return runs


def diverged_runs(study: Study) -> dict[str, list[dict[str, Any]]]:
    """The key `diverged` with the folder and the step of each diverged run; empty if no run diverged."""
    runs = [{"folder": f"runs/{name}", "step": step} for name, step in study.diverged.items()]
    return {"diverged": runs} if runs else {}


def title_of(source: dict[str, Any], root: Path) -> str:
    """A source of data or of a model as a title that names no folder outside the study's, such as `gsm8k train`."""
    path = source.get("path")
    what = source.get("id") or (shown_path(path, root) if path else source["source"])
    return f"{what} {source['split']}" if source.get("split") else str(what)
