"""What one step of training would have been under other weights: from the stored Gram matrices, without a model.

Users call `read_measured_step` and `what_if` in scripts of their own (docs/gradients.md). No rule does: which other
weights matter is their question.

A component's share is its term of the advantage, weight included; the shares add up to the advantage. The answer has
the similarities of the gradients of the shares, and what a small step along the gradient does to each component's
expected score. Weights may be on components that the run did not train on::

    measured = read_measured_step(runs / "equal-1a2b3c4d/seed1", 50)
    what_if({"correctness": 1, "length": 0.5}, measured).effect
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from reward_ablation.analysis.gradients.measured_steps import MeasuredRun, MeasuredStep, gradients_of_scores
from reward_ablation.gram.similarity import (
    ALL_LAYERS,
    PARTS,
    ROUNDING,
    Block,
    gradient_rows,
    jackknife_margin,
    parts_by_prompt,
    with_all_layers,
    without_each_prompt,
)
from reward_ablation.system.errors import StudyError

#: Name of the gradient that all shares add up to; no component may have this name.
TOTAL = "total"


@dataclass(frozen=True)
class WhatIf:
    """Answers for one weight vector.

    `similarity` has the columns of `gradients.parquet`: the components' shares under the weights, and their sum,
    `total`. `effect` has rows (layer, component) and these columns:

    - effect: change of the component's expected score per unit of the learning rate of a step of plain gradient
      descent, to first order. It is the inner product of the gradient of the expected score and the step.
    - self, same_prompt, cross_prompt: parts of the effect, of completions on themselves, on others of their prompt, and
      on other prompts.
    - per_length, per_length_low, per_length_high: the effect per unit of the length of the step in all layers, with a
      95 % interval (delete one prompt). Comparable between weights; optimisers that rescale, such as Adam, decide the
      length themselves.
    """

    similarity: pd.DataFrame
    effect: pd.DataFrame


def read_measured_step(folder: str | Path, step: int) -> MeasuredStep:
    """Read what a run stored of one step in its folder.

    A StudyError is raised where the step was not measured, or where the stored data do not say what other advantages
    would have done: rows of other families (kinds of tokens) than all_tokens, as of a placement on some tokens or of
    clipped ratios, advantages that do not follow from the scores, or completions that are missing or whose groups
    cannot be told apart.
    """
    return MeasuredRun(Path(folder), [step]).step(step)


def what_if(weights: Mapping[str, float], measured: MeasuredStep) -> WhatIf:
    """Similarities and first-order effects of one step under other weights; those not named are 0.

    The advantages are those that TRL would have given the same completions. The effect on the expected score of
    component k is <grad J_k, -g>, with g the gradient of the loss under `weights` and grad J_k the mean over
    completions of (score - mean score of the others of the group) * grad log-probability.

    The numbers are of the policy term at the one step. Terms between blocks (micro-batches, processes) are not in the
    file, nor do completions count that the loss masks out. The same completions give the step and its effect, so that
    `self` counts in its favour; only `cross_prompt` says what completions of one prompt do to other prompts.
    """
    check_weights(weights, measured.components)
    vector = np.array([float(weights.get(name, 0.0)) for name in measured.components])
    shares = measured.shares(vector[None])[0].T
    blocks = measured.blocks_with(np.concatenate([shares, shares.sum(axis=0, keepdims=True)]))
    layers = measured.blocks[0].layers
    names = [("share", name) for name in [*measured.components, TOTAL]]
    similarity = gradient_rows(measured.step, layers, names, blocks).to_pandas()
    return WhatIf(similarity, effects(measured, layers, blocks))


def check_weights(weights: Mapping[str, float], components: list[str]) -> None:
    """Refuse weights of components that the run does not have, and weights that are not finite numbers."""
    for name, weight in weights.items():
        if name not in components:
            raise StudyError(f"weights: unknown component {name!r}; components here: {', '.join(components)}")
        if not math.isfinite(weight):
            raise StudyError(f"weights.{name}: {weight} is not a finite number")


def effects(measured: MeasuredStep, layers: list[str], blocks: list[Block]) -> pd.DataFrame:
    """Effects of a step along minus the last vector of `blocks`; columns as in `WhatIf`."""
    with_step = [  # the gradients of the scores, and last the step
        Block(block.grams, np.concatenate([rows, -block.coefficients[-1:]]), block.completions, block.prompts)
        for block, rows in zip(blocks, gradients_of_scores(measured, blocks), strict=True)
    ]
    prompts, prompt = np.unique(np.concatenate([block.prompts for block in blocks]), return_inverse=True)
    counted = np.concatenate([stored.rows["token_weight"] > 0 for stored in measured.blocks])  # not masked by the loss
    sizes = np.bincount(prompt, counted)
    parts = with_all_layers(parts_by_prompt(with_step, slice(None), prompts), axis=1)
    total = parts.sum(axis=2)
    dots = total.sum(axis=0)
    left_dots = without_each_prompt(parts, total).sum(axis=0)
    square, left_squares = dots[:1, -1:, -1:], left_dots[:1, :, -1:, -1:]
    # A step that comes from one prompt alone has no direction without this prompt.
    left_squares = np.where(left_squares > ROUNDING * square[:, None], left_squares, np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        per_length = dots[:, :-1, -1:] / np.sqrt(square)
        left_out = left_dots[:, :, :-1, -1:] / np.sqrt(left_squares)
        # A gradient of a score is a mean over completions, now over fewer. The step is divided by its own length.
        left_out *= (sizes.sum() / (sizes.sum() - sizes))[:, None, None]
    margin = jackknife_margin(left_out)
    columns = {
        "effect": dots[:, :-1, -1],
        **{name: part[:, :-1, -1] for name, part in zip(PARTS, total, strict=True)},
        "per_length": per_length[..., 0],
        "per_length_low": (per_length - margin)[..., 0],
        "per_length_high": (per_length + margin)[..., 0],
    }
    names = [ALL_LAYERS, *layers]
    labels = {
        "layer": np.repeat(names, len(measured.components)),
        "component": np.tile(measured.components, len(names)),
    }
    return pd.DataFrame({**labels, **{name: values.ravel() for name, values in columns.items()}})
