"""Specs, files and options for the rule `score`, which scores stored answers by the study's own metrics."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from reward_ablation.config.study_config import StudyConfig
from reward_ablation.spec.run import ScoresSpec
from reward_ablation.study.code_digest import code_digest
from reward_ablation.study.core_digest import AROUND, scoring_modules
from reward_ablation.study.job_options import other_parameters, parameter_options, reward_model_options
from reward_ablation.study.reward_models import UsedModel, used_models
from reward_ablation.study.run_folder import ANSWERS_OF_JUDGES
from reward_ablation.study.specs_of_config import scores_spec


def scoring_code(spec: ScoresSpec) -> str:
    """Digest of the code that decides scores: of the stage, and of the package's functions in use."""
    functions = (metric.function for metric in spec.metrics.values())
    return code_digest("reward_ablation.scores", *scoring_modules(functions), without=AROUND)


@dataclass(frozen=True)
class Scoring:
    """The scoring of answers in a study. Relative paths in its config start from `root`."""

    config: StudyConfig
    root: Path

    @cached_property
    def spec(self) -> ScoresSpec:
        """Everything that decides the scores."""
        return scores_spec(self.config, self.root)

    @cached_property
    def code(self) -> str:
        """Digest of the code that decides scores."""
        return scoring_code(self.spec)

    @cached_property
    def models(self) -> dict[str, UsedModel]:
        """The reward models that score answers, by metric."""
        written = {name: parameters for name, (_, parameters) in self.config.metric_functions().items()}
        return used_models(self.spec.metrics, written)

    @property
    def model_files(self) -> list[str]:
        """Records of these models after they are fetched, each once, below the results folder."""
        return sorted({model.file for model in self.models.values()})

    @property
    def gpus(self) -> int:
        """Number of a job's GPUs: 1 if a metric is a model and the study uses GPUs, else 0."""
        return min(1, self.config.launch.gpus) if self.models else 0

    @property
    def options(self) -> str:
        """Options of the scoring command that decide no score, each after a space.

        These are the other parameters of metrics, the folder of judges' answers, and the folders of models. A change of
        them is no reason to score again.
        """
        others = other_parameters(self.config.metric_functions(), self.root)
        answers_of_judges = shlex.quote(f"{self.config.root}/{ANSWERS_OF_JUDGES}")
        models = reward_model_options(self.models.values(), self.config.root)
        return f"{parameter_options(others)} --judge {answers_of_judges}{models}"
