"""How stored answers are scored by the study's own metrics: what the rule `score` needs to know."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from reward_ablation.config.study_config import StudyConfig
from reward_ablation.study.code_digest import code_digest
from reward_ablation.study.core_digest import scoring_modules
from reward_ablation.study.options import other_parameters, parameter_options, reward_model_options
from reward_ablation.study.reward_models import UsedModel, used_models
from reward_ablation.study.run_folder import ANSWERS_OF_JUDGES
from reward_ablation.study.run_spec import ScoresSpec
from reward_ablation.study.spec import scores_spec


@dataclass(frozen=True)
class Scoring:
    """Metrics of a study; relative paths in its config start from the root."""

    config: StudyConfig
    root: Path

    @cached_property
    def spec(self) -> ScoresSpec:
        """What decides the scores."""
        return scores_spec(self.config, self.root)

    @cached_property
    def code(self) -> str:
        """Digest of the code that scores answers: the stage's, and that of the package's functions in use."""
        functions = (metric.function for metric in self.spec.metrics.values())
        return code_digest("reward_ablation.scores", *scoring_modules(functions))

    @cached_property
    def models(self) -> dict[str, UsedModel]:
        """The reward models that score answers, by metric."""
        written = {name: parameters for name, (_, parameters) in self.config.metric_functions().items()}
        return used_models(self.spec.metrics, written)

    @property
    def model_files(self) -> list[str]:
        """Records of these models once they are fetched, below the results folder; each once."""
        return sorted({model.file for model in self.models.values()})

    @property
    def gpus(self) -> int:
        """GPUs of a job: one where a metric is a model and the study has GPUs."""
        return min(1, self.config.launch.gpus) if self.models else 0

    @property
    def options(self) -> str:
        """Parameters that decide no score, the folder of kept answers, and those of models; each after a space.

        They are no reason to score again.
        """
        others = other_parameters(self.config.metric_functions(), self.root)
        kept = shlex.quote(f"{self.config.root}/{ANSWERS_OF_JUDGES}")
        models = reward_model_options(self.models.values(), self.config.root)
        return f"{parameter_options(others)} --judge {kept}{models}"
