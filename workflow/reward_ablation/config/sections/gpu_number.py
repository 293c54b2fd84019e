"""A run's number of GPUs: a whole number, or an equal share of one GPU."""

from __future__ import annotations

import reprlib
from fractions import Fraction
from typing import Annotated, Any

from pydantic import PlainValidator, WithJsonSchema

from reward_ablation.system.gpu_fractions import RUNS_ON_A_GPU

#: How far a written share may be from the exact one: 0.33 and 0.34 are a third, 0.12 and 0.13 an eighth.
TOLERANCE = 0.007
#: Snakemake's resources in studies whose runs share GPUs: the number of parts of GPUs, and the share in words.
PARTS, SHARE = "gpu_parts", "gpu_share"
#: Parts of one GPU. Each allowed share is a whole number of parts.
PARTS_OF_A_GPU = 840

#: Most GPUs of a run.
MOST_GPUS = 2**16

ALLOWED = (
    "write a whole number of GPUs, or an equal share of one: 0.5, 0.33, 0.25, 0.2, 0.167, 0.143 or 0.125 (a half to an "
    "eighth)"
)
#: Schemas of a number in a file, for editors. At the start a number replaces `auto` before the config is validated.
SHARES = {"type": "number", "minimum": 0.12, "maximum": 0.5}
COUNT = {"anyOf": [{"type": "integer", "minimum": 0}, SHARES]}
COUNT_OR_AUTO = {"anyOf": [*COUNT["anyOf"], {"const": "auto"}]}


def read_number(value: Any) -> int | float:
    """Read a number of GPUs; a share becomes exact. Raises ValueError if a run cannot have this number."""
    try:
        number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else -1.0
    except (ValueError, OverflowError):
        number = -1.0
    if 0 < number < 1:
        runs = round(1 / number)
        if runs in RUNS_ON_A_GPU and abs(number - 1 / runs) < TOLERANCE:
            return 1 / runs
    elif 0 <= number <= MOST_GPUS and number.is_integer():
        return int(number)
    raise ValueError(f"{reprlib.repr(value)} is not allowed; {ALLOWED}")


#: A number of GPUs as written in a config.
GpuNumber = Annotated[int | float, PlainValidator(read_number), WithJsonSchema(COUNT)]


def share_text(share: float) -> str:
    """A share in words: `0.5`, `0.333`."""
    return f"{share:.3g}"


def parts_of(gpus: int, share: float) -> int:
    """Parts of GPUs that a job takes: the share of each of its GPUs."""
    return gpus * round(PARTS_OF_A_GPU * share)


def share_in(resources: Any) -> Fraction:
    """Share of each of its GPUs that a job has, from its resources; 1 if the resources count no parts."""
    gpus, parts = resources.get("gpu") or 0, resources.get(PARTS) or 0
    return Fraction(parts, gpus * PARTS_OF_A_GPU) if gpus and parts else Fraction(1)
