"""Specs, files and options for the rule `score`, which scores stored answers by the study's own metrics.

`study.resolve` makes a `Scoring` for each study, and the rule takes its params from there. The rule's command records
`scoring_code`, and `start.decide` compares it: scores by other code are made again.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
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
    """The scoring of answers in a study."""

    spec: ScoresSpec  # everything that decides the scores
    models: list[UsedModel]  # the reward models that score answers
    gpus: int  # of a job: 1 if a metric is a model and the study uses GPUs, else 0
    #: Options of the command that decide no score, each after a space: the other parameters of metrics, the folder of
    #: judges' answers, and the folders of models. A change of them is no reason to score again.
    options: str

    @property
    def code(self) -> str:
        """Digest of the code that decides scores."""
        return scoring_code(self.spec)

    @property
    def model_files(self) -> list[str]:
        """Records of the models after they are fetched, each once, below the results folder."""
        return sorted({model.file for model in self.models})


def scoring_of(config: StudyConfig, root: Path) -> Scoring:
    """The scoring of answers by a config. Relative paths in the config start from `root`."""
    spec, functions = scores_spec(config, root), config.metric_functions()
    models = used_models(spec.metrics, functions)
    others = parameter_options(other_parameters(functions, root))
    judges = shlex.quote(f"{config.root}/{ANSWERS_OF_JUDGES}")
    options = f"{others} --judge {judges}{reward_model_options(models, config.root)}"
    return Scoring(spec, models, min(1, config.launch.gpus) if models else 0, options)
