"""Inner products of what a measured step's completions can make: gradients of scores, and steps under weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from reward_ablation.analysis.gradients.advantages import component_shares
from reward_ablation.analysis.gradients.what_if import (
    COMPLETION,
    MeasuredStep,
    gradients_of_scores,
    read_measured_step,
    rows_in_rollouts,
)
from reward_ablation.analysis.runs import rerun_of
from reward_ablation.gram.similarity import Block
from reward_ablation.system.errors import StudyError


@dataclass(frozen=True)
class StepProducts:
    """A measured step, ready to be asked about any weights.

    Parameters
    ----------
    measured : MeasuredStep
    blocks : list of Block
        Gram matrices by layer with the `alone` gradients of the K components as vectors; `completions` are places in
        the step's rollouts, `prompts` are numbers of prompts.
    summed : list of (R, R) array
        The Gram matrices summed over layers.
    scores : list of (K, R) array
        Coefficients of the gradients of the components' expected scores.
    prompts : (G,) int array
        All prompts of the step.
    """

    measured: MeasuredStep
    blocks: list[Block]
    summed: list[np.ndarray]
    scores: list[np.ndarray]
    prompts: np.ndarray


def step_products(measured: MeasuredStep) -> StepProducts:
    """Prepare a measured step."""
    places = rows_in_rollouts(measured)
    labels = measured.rollouts.groupby(COMPLETION[:2]).ngroup().to_numpy()
    how = measured.scale_rewards, measured.aggregation
    alone = np.concatenate(
        [
            np.concatenate(
                [component_shares(scores[:, [k]], np.ones(1), size, *how) for k in range(scores.shape[1])], axis=1
            )
            for scores, size in measured.by_group("score_")
        ]
    ).T
    blocks = [
        Block(stored.grams, alone[:, here], here, labels[here])
        for stored, here in zip(measured.blocks, places, strict=True)
    ]
    return StepProducts(
        measured,
        blocks,
        [block.grams.sum(axis=0) for block in blocks],
        gradients_of_scores(measured, blocks),
        np.unique(np.concatenate([block.prompts for block in blocks])),
    )


def read_products(folder: Path, step: int, components: list[str]) -> StepProducts | str:
    """Read a step and prepare it; where it cannot be asked about other weights, the reason.

    Parameters
    ----------
    components : list of str
        The run's components in the order that results are to have.

    Raises
    ------
    StudyError
        A file is damaged.
    """
    try:
        measured = read_measured_step(folder, step)
        return step_products(replace(measured, weights={name: measured.weights[name] for name in components}))
    except StudyError as error:
        return str(error)
    except (OSError, ValueError) as error:  # Arrow's own errors are these
        reason = str(error).splitlines()[0].rstrip(".")
        raise StudyError(f"{folder}: its stored Gram matrices cannot be read ({reason}); {rerun_of(folder)}") from error


def cross_prompt_products(
    grams: np.ndarray, first: np.ndarray, second: np.ndarray, labels: np.ndarray, prompts: np.ndarray
) -> np.ndarray:
    """Inner products of two sets of vectors over pairs of rows of different prompts, by the first row's prompt.

    Each pair of different prompts is one way of splitting the prompts in two parts, one for either gradient: no noise
    of a completion meets itself, so that the expectation is the inner product of the expected gradients. Their sum is
    the mean over all splits in halves, but for a factor that all products share.

    Parameters
    ----------
    grams : (..., R, R) array
    first, second : (V, R) and (W, R) arrays
        Coefficients.
    labels : (R,) array
        Prompt of each row.
    prompts : (G,) array

    Returns
    -------
    (..., G, V, W) array.
    """
    member = (labels == prompts[:, None]).astype(float)  # (G, R)
    inner = grams @ second.T  # (..., R, W)
    by_pair = np.einsum("gr,vr,...rw->...gvw", member, first, inner, optimize=True)
    own = np.zeros_like(by_pair)
    for place in range(len(prompts)):
        rows = np.flatnonzero(member[place])
        if len(rows):
            own[..., place, :, :] = first[:, rows] @ grams[..., rows[:, None], rows] @ second[:, rows].T
    return by_pair - own


def pairs_known(products: StepProducts) -> float:
    """Share of the pairs of completions that are of different prompts and of one block; 0 where there is none."""
    known = sum(int((block.prompts[:, None] != block.prompts).sum()) for block in products.blocks)
    return known / sum(len(block.prompts) for block in products.blocks) ** 2


def effects_on_other_prompts(products: StepProducts, shares: list[np.ndarray]) -> np.ndarray:
    """What steps under some weights do to the components' expected scores on prompts that the steps did not see.

    Per unit of the step's length: <grad J_k, step> / |step|, with the inner product over pairs of completions of
    different prompts only, divided by their share of all pairs. It estimates the effect of the expected step without
    bias; `what_if`'s `per_length` has the completions' effect on themselves and on their own prompt in it as well.

    Parameters
    ----------
    shares : list of (N, K) arrays
        `measured.shares` under each of P weight vectors.

    Returns
    -------
    (P, K) array, change of the score per unit of length; NaN where the weights make no step, or where no two prompts'
    completions are compared.
    """
    totals = np.array([of_weights.sum(axis=1) for of_weights in shares])  # (P, N)
    effects = np.zeros((len(totals), len(products.measured.components)))
    squares = np.zeros(len(totals))
    for block, gram, scores in zip(products.blocks, products.summed, products.scores, strict=True):
        steps = -totals[:, block.completions]
        apart = gram * (block.prompts[:, None] != block.prompts)
        effects += steps @ apart @ scores.T
        squares += np.einsum("pr,pr->p", steps @ gram, steps)
    share = pairs_known(products)
    scale = np.sqrt(np.where(squares > 0, squares, np.nan)) * (share or np.nan)
    return effects / scale[:, None]


def alignments(products: StepProducts) -> tuple[np.ndarray, np.ndarray]:
    """How each component's gradient lies to the training step that was taken.

    Returns
    -------
    (K,) cosines between the gradient of the component's expected score and the step, with all pairs of completions,
    and (K,) `effects_on_other_prompts` of the step.
    """
    own = products.measured.shares(products.measured.weights)
    dots, squares, step_square = np.zeros(len(products.measured.components)), 0.0, 0.0
    for block, gram, scores in zip(products.blocks, products.summed, products.scores, strict=True):
        step = -own.sum(axis=1)[block.completions]
        dots += scores @ gram @ step
        squares = squares + np.einsum("kr,kr->k", scores @ gram, scores)
        step_square += step @ gram @ step
    scale = np.sqrt(np.maximum(squares * step_square, 0.0))
    cosines = np.divide(dots, scale, out=np.full(len(dots), np.nan), where=scale > 0)
    return np.clip(cosines, -1, 1), effects_on_other_prompts(products, [own])[0]
