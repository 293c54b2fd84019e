"""The study config: all keys that a user may write. `config/README.md` explains each key to users.

`study.resolve` validates each config by it, and the JSON schema for editors is made from it (`docs/tools/schemas.py`).
It puts the sections together and answers what follows from several of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from reward_ablation.config.base import Folder, Name, NonNegativeInt, Section
from reward_ablation.config.designs import Arm, Design, expand, without_left_out
from reward_ablation.config.sections.data import Data, Prompt
from reward_ablation.config.sections.evaluation import Evaluation
from reward_ablation.config.sections.launch import Launch
from reward_ablation.config.sections.model import Model
from reward_ablation.config.sections.questions import (
    ClaimOnArms,
    Figures,
    PrimaryQuestion,
    Seeds,
    SequentialSeeds,
    Statistics,
)
from reward_ablation.config.sections.training import Component, Gradients, Lora, Sft
from reward_ablation.config.trl_settings import GrpoSettings


class StudyConfig(Section):
    """One study: model, data, components, arms, seeds, training, evaluation."""

    name: Name
    results: Folder | None = Field(None, description="Folder of all outputs; default results/<name>.")
    seeds: Seeds
    model: Model
    data: Data
    prompt: Prompt = Prompt()
    components: dict[Name, Component] = Field(min_length=1)
    arms: Design
    baseline: Name | None = Field(None, description="Arm that the others are compared with; default the first.")
    control: Name | None = Field(None, description="Arm that is rewarded at random; default none.")
    primary: PrimaryQuestion = Field(
        PrimaryQuestion(), description="What the study is to find out, stated before the first run."
    )
    claims: dict[Name, ClaimOnArms] = Field(
        default_factory=dict,
        description="Claims by name; the finished study supports each, contradicts it or leaves it open.",
    )
    training: GrpoSettings = Field(default_factory=dict, description="TRL's GRPOConfig by its own names.")
    lora: Lora | None = Field(None, description="Train adapters; default: all weights.")
    sft: Sft | None = Field(None, description="Start all runs from the model that has learnt these demonstrations.")
    gradients: Gradients = Gradients()
    launch: Launch = Launch()
    keep_models: NonNegativeInt = Field(
        0, description="Keep and evaluate each run's model after each n-th step too; 0: the final model only."
    )
    evaluation: Evaluation
    bootstrap: int = Field(2000, ge=100, le=1_000_000, description="Resamples behind each interval.")
    confidence: float = Field(0.95, gt=0, lt=1)
    statistics: Statistics = Statistics()
    figures: Figures = Figures()
    mixed_provenance: Literal["tell", "refuse"] = Field(
        "tell",
        description="Runs trained by different code, package versions or hardware: tell reports them, refuse makes no "
        "tables of them.",
    )

    gone: ClassVar = {
        "exports": "there is no such key any more; take it out, and read rollouts.parquet of each run and the "
        "answers in evaluation/, as docs/coming-from says"
    }

    @field_validator("seeds")
    @classmethod
    def _distinct(cls, seeds: list[int] | SequentialSeeds) -> list[int] | SequentialSeeds:
        if isinstance(seeds, list) and len(set(seeds)) < len(seeds):
            raise ValueError("a seed occurs twice; each seed is one run")
        return seeds

    @property
    def sequential(self) -> SequentialSeeds | None:
        """Numbers of seeds (looks) at which a sequential study may decide contrasts; None if the seeds are a list."""
        return self.seeds if isinstance(self.seeds, SequentialSeeds) else None

    @property
    def listed_seeds(self) -> list[int]:
        """The study's seeds; in a sequential study, the seeds of the last look."""
        return self.seeds if isinstance(self.seeds, list) else list(range(self.seeds.looks[-1]))

    def with_seeds(self, of_arms: Mapping[str, list[int]]) -> StudyConfig:
        """This config with these lists of seeds by arm, and without looks."""
        arms = self.arms.model_copy(update={"seeds": {**self.arms.seeds, **of_arms}})
        return self.model_copy(update={"seeds": self.listed_seeds, "arms": arms})

    @property
    def root(self) -> str:
        """Folder of all outputs of this study."""
        return self.results or f"results/{self.name}"

    def expanded_arms(self) -> dict[str, Arm]:
        """Arms by name, with one weight per component, in the design's order. Arms without seeds are left out."""
        everywhere = [name for name, component in self.components.items() if component.scored == "everywhere"]
        return without_left_out(self.arms, expand(self.arms, list(self.components), everywhere))

    def seeds_of(self, arm: str) -> list[int]:
        """Seeds of an arm: its own, or the study's."""
        return self.arms.seeds.get(arm, self.listed_seeds)

    def seeds_in_order(self, arms: Iterable[str]) -> list[int]:
        """All seeds of these arms: first the study's seeds in their order, then the others, ascending."""
        own = {seed for arm in arms for seed in self.seeds_of(arm)}
        return [seed for seed in self.listed_seeds if seed in own] + sorted(own - set(self.listed_seeds))

    def refuse_left_out(self) -> None:
        """Refuse keys that name an arm without seeds, by a ValueError `key: ...`."""
        named = {"baseline": self.baseline, "control": self.control}
        for number, contrast in enumerate(self.primary.contrasts or []):
            named |= {f"primary.contrasts.{number}.arm": contrast.arm}
            named |= {f"primary.contrasts.{number}.against": contrast.against}
        for name, claim in self.claims.items():
            named |= {f"claims.{name}.arm": claim.arm, f"claims.{name}.against": claim.against}
        for key, arm in named.items():
            if arm is not None and self.arms.seeds.get(arm) == []:
                raise ValueError(
                    f"{key}: arm '{arm}' is left out of the study, as arms.seeds.{arm} is empty; give the arm seeds, "
                    "or name another arm"
                )

    @property
    def chat_template_kwargs(self) -> dict[str, Any]:
        """Variables of the chat template, the same for all prompts."""
        return self.training.get("chat_template_kwargs") or {}

    def training_of(self, arm: Arm) -> dict[str, Any]:
        """The study's settings of training with an arm's own."""
        return {**self.training, **arm.training}

    def scored_in(self, arm: Arm) -> dict[str, Component]:
        """The components that score the completions of an arm's runs, by name."""
        named = arm.combine.named(self.components) if arm.combine else ()
        return {
            name: component
            for name, component in self.components.items()
            if component.scored == "everywhere" or arm.weights[name] or name in named
        }

    def component_functions(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """Function and parameters of each component, by name."""
        return {name: (component.function, component.parameters) for name, component in self.components.items()}

    def metric_functions(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """Function and parameters of each of the study's own metrics, by name."""
        named = {
            name: self.components.get(metric.component or "", metric)
            for name, metric in self.evaluation.metrics.items()
        }
        return {name: (str(source.function), source.parameters) for name, source in named.items()}
