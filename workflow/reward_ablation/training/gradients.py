"""Gram matrices of the components' gradients, by layer: the plain way.

One forward pass is shared; each component costs one backward pass and one buffer of the size of
the trained parameters. This is the reference that faster ways are held to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

#: Name of the row that sums over all layers.
ALL_LAYERS = "all"

SCHEMA = pa.schema(
    [
        ("step", pa.int64()),
        ("layer", pa.string()),
        ("component_a", pa.string()),
        ("component_b", pa.string()),
        ("definition", pa.string()),
        ("dot", pa.float64()),
        ("cosine", pa.float64()),
    ]
)

_BLOCK = re.compile(r"\.(layers|h|blocks)\.(\d+)\.")


def layer_of(parameter: str) -> str:
    """Layer of a parameter by its name: `layers.3` for a block, else the module, such as `embed_tokens`."""
    block = _BLOCK.search(f".{parameter}")
    if block:
        return f"layers.{block[2]}"
    path = [part for part in parameter.split(".") if part not in {"weight", "bias", "default"}]
    return path[-1] if not path[-1].startswith("lora_") else path[-2]


def gram_cosine(gram: np.ndarray) -> np.ndarray:
    """Cosine similarities from a Gram matrix.

    Parameters
    ----------
    gram : (K, K) array
        Inner products of K gradients, symmetric, positive semi-definite.

    Returns
    -------
    (K, K) array in [-1, 1]; NaN in the row and column of a gradient that is zero,
    which has no direction to compare.
    """
    norm = np.sqrt(np.diag(gram))
    with np.errstate(invalid="ignore", divide="ignore"):
        cosine = gram / np.outer(norm, norm)
    return np.clip(cosine, -1.0, 1.0)


class ComponentGradients:
    """The gradients of K losses over the micro-batches of one optimiser step.

    Parameters
    ----------
    parameters : iterable of (str, Parameter)
        Named parameters; those that are not trained are left out.
    components : list of str
        Names of the K components.
    """

    def __init__(self, parameters: Iterable[tuple[str, Tensor]], components: list[str]):
        named = [(name, parameter) for name, parameter in parameters if parameter.requires_grad]
        self.components = components
        self.layers = [layer_of(name) for name, _ in named]
        self.parameters = [parameter for _, parameter in named]
        self.sums: list[Tensor] | None = None

    @property
    def measured(self) -> bool:
        """Whether gradients were added since they were last taken."""
        return self.sums is not None

    def add(self, losses: Iterable[Tensor]) -> None:
        """Add the gradients of one micro-batch; its graph is kept for the training step's own backward pass."""
        if self.sums is None:
            size = len(self.components)
            self.sums = [
                torch.zeros(size, parameter.numel(), dtype=torch.float32, device=parameter.device)
                for parameter in self.parameters
            ]
        for k, loss in enumerate(losses):
            gradients = torch.autograd.grad(loss, self.parameters, retain_graph=True, allow_unused=True)
            for total, gradient in zip(self.sums, gradients, strict=True):
                if gradient is not None:  # a parameter that the loss does not reach
                    total[k] += gradient.flatten()

    def take_grams(self, reduce=lambda gradients: gradients) -> dict[str, np.ndarray]:
        """Gram matrices by layer and over all layers; empties the sums.

        Parameters
        ----------
        reduce : callable
            Averages a tensor over the processes of a distributed run. Products of rank-local
            gradients would not be those of the batch's gradient.

        Returns
        -------
        dict of str to (K, K) float64 array
            `all` first, then the layers in the model's order.
        """
        size = len(self.components)
        grams = {layer: np.zeros((size, size)) for layer in (ALL_LAYERS, *self.layers)}
        for layer, gradients in zip(self.layers, self.sums or [], strict=True):
            gradients = reduce(gradients)
            gram = (gradients @ gradients.T).double().cpu().numpy()
            grams[layer] += gram
            grams[ALL_LAYERS] += gram
        self.sums = None
        return grams


def gram_rows(step: int, grams: dict[str, np.ndarray], components: list[str], definition: str) -> pa.Table:
    """Gram matrices of one step as rows of `gradients.parquet`, each pair once; a cosine that is undefined is null."""
    rows = []
    for layer, gram in grams.items():
        cosine = gram_cosine(gram)
        for a, b in zip(*np.triu_indices(len(components)), strict=True):
            rows.append(
                {
                    "step": step,
                    "layer": layer,
                    "component_a": components[a],
                    "component_b": components[b],
                    "definition": definition,
                    "dot": gram[a, b],
                    "cosine": None if np.isnan(cosine[a, b]) else cosine[a, b],
                }
            )
    return pa.Table.from_pylist(rows, schema=SCHEMA)
