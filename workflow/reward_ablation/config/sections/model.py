"""The base model, the key `model`: from the hub, a local folder, or built here.

`config.study_config` has it in the config, and the command of the rule `fetch` reads its spec by the same classes.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from reward_ablation.config.base import COMMIT, Line, PositiveInt, Repository, Section, Seed


class HubModel(Section):
    """A model snapshot from the Hugging Face hub."""

    source: Literal["hub"] = "hub"
    id: Repository = Field(description="Repository, such as Qwen/Qwen2.5-1.5B-Instruct.")
    revision: str = Field(pattern=COMMIT, description="Full commit hash: a branch name would not say what was trained.")


class LocalModel(Section):
    """A folder with config.json, safetensors and a tokenizer."""

    source: Literal["local"] = "local"
    path: Line


class DemoModel(Section):
    """A tiny Qwen2-style model and tokenizer, built and warm-started by the workflow itself."""

    source: Literal["demo"] = "demo"
    seed: Seed = 0
    samples: PositiveInt = Field(6000, description="Worked examples of the sloppy teacher.")
    steps: PositiveInt = Field(600, description="Optimiser steps of the warm start.")


Model = Annotated[HubModel | LocalModel | DemoModel, Field(discriminator="source")]
