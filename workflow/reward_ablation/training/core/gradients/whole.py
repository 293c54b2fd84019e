"""Whole gradients as rldynamics lays them out: arrays by `component/parameter`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from torch import Tensor


def whole_arrays(
    components: Sequence[str], vectors: Mapping[str, Tensor], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, np.ndarray]:
    """Gradients of K components in float32.

    Parameters
    ----------
    components : sequence of K str
    vectors : mapping of str to (K, P) tensor
        By parameter, flattened.
    shapes : mapping of str to tuple
        Of the parameters.
    """
    return {
        f"{component}/{parameter}": of_parameter[k].float().cpu().numpy().reshape(shapes[parameter])
        for parameter, of_parameter in vectors.items()
        for k, component in enumerate(components)
    }
