"""Inner products of gradients at a measured step: gradients of expected scores, and steps under any weights."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from reward_ablation.analysis.gradients.what_if import MeasuredRun, MeasuredStep, gradients_of_scores
from reward_ablation.analysis.runs import rerun_of
from reward_ablation.gram.similarity import Block
from reward_ablation.system.errors import StudyError


@dataclass(frozen=True)
class StepProducts:
    """A measured step, prepared for questions about any weights."""

    measured: MeasuredStep
    blocks: list[Block]  # Gram matrices by layer; the vectors are the `alone` gradients of the K components
    summed: list[np.ndarray]  # by block: (R, R) Gram matrices summed over layers
    scores: list[np.ndarray]  # by block: (K, R) coefficients of the gradients of the components' expected scores
    prompts: np.ndarray  # (G,) numbers of all prompts of the step


def step_products(measured: MeasuredStep) -> StepProducts:
    """Prepare a measured step."""
    each_alone = enumerate(measured.shares(np.eye(len(measured.components))))
    blocks = measured.blocks_with(np.stack([shares[:, column] for column, shares in each_alone], axis=1).T)
    return StepProducts(
        measured,
        blocks,
        [block.grams.sum(axis=0) for block in blocks],
        gradients_of_scores(measured, blocks),
        np.unique(np.concatenate([block.prompts for block in blocks])),
    )


def read_products(run: MeasuredRun, step: int, components: list[str]) -> StepProducts | str:
    """Read a step of a run and prepare it, or return the reason why nothing can be said about other weights.

    The results have the order of `components`, which are those of the run. A damaged file raises a StudyError.
    """
    try:
        measured = run.step(step)
        if measured.components != components:
            measured = replace(measured, weights={name: measured.weights[name] for name in components})
        return step_products(measured)
    except StudyError as error:
        return str(error)
    except (OSError, ValueError) as error:  # Arrow's own errors are these
        reason = str(error).splitlines()[0].rstrip(".")
        again = rerun_of(run.folder)
        raise StudyError(f"{run.folder}: its stored Gram matrices cannot be read ({reason}); {again}") from error


def effects_on_other_prompts(products: StepProducts, shares: list[np.ndarray]) -> np.ndarray:
    """What steps under some weights do to the components' expected scores on prompts that the steps did not see.

    Per unit of the step's length: <grad J_k, step> / |step|, with the inner product over pairs of completions of
    different prompts only, divided by their share of all pairs. It estimates the effect of the expected step without
    bias; `per_length` of `what_if` also contains completions' effect on themselves and on their own prompt.

    `shares` has the (N, K) `measured.shares` under each of P weight vectors. The result is (P, K), with NaN where the
    weights make no step, or where no two prompts' completions are compared.
    """
    totals = np.array([of_weights.sum(axis=1) for of_weights in shares])  # (P, N)
    effects = np.zeros((len(totals), len(products.measured.components)))
    squares = np.zeros(len(totals))
    for block, gram, scores in zip(products.blocks, products.summed, products.scores, strict=True):
        steps = -totals[:, block.completions]
        apart = gram * (block.prompts[:, None] != block.prompts)
        effects += steps @ apart @ scores.T
        squares += np.einsum("pr,pr->p", steps @ gram, steps)
    known = sum(int((block.prompts[:, None] != block.prompts).sum()) for block in products.blocks)
    share = known / sum(len(block.prompts) for block in products.blocks) ** 2
    scale = np.sqrt(np.where(squares > 0, squares, np.nan)) * (share or np.nan)
    return effects / scale[:, None]
