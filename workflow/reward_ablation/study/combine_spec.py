"""The spec of an arm's method of combination, by the key `combine` of the config.

`study.resolve` calls it for each arm. TRL's own two methods become settings of TRL instead, so that such an arm shares
the runs of an arm with that setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from reward_ablation.combination.load import arguments_of_method, check
from reward_ablation.config.designs import Arm
from reward_ablation.config.sections.training import AGGREGATION, DEFAULT_GRAM, TRL_AGGREGATIONS
from reward_ablation.config.study_config import StudyConfig
from reward_ablation.config.trl_settings import BatchSizes
from reward_ablation.spec.canonical import normalised
from reward_ablation.spec.parts import CombineSpec
from reward_ablation.spec.run import ArmSpec
from reward_ablation.study.reward_files import function_digest
from reward_ablation.study.reward_import import range_of
from reward_ablation.system.errors import StudyError


def with_trl_methods(study: StudyConfig, arm: Arm) -> Arm:
    """An arm with TRL's setting in place of `weighted_sum` or `gdpo`, which have no parameters: it shares the runs."""
    if arm.combine is None or arm.combine.method not in TRL_AGGREGATIONS:
        return arm
    method = arm.combine
    extra = [*method.parameters, *(["gram"] if method.gram else [])]
    if extra:
        raise ValueError(f"combine: {method.method}: unknown parameter {extra[0]!r}; TRL's own method has none")
    training = {**arm.training, AGGREGATION: TRL_AGGREGATIONS[method.method]}
    if method.method == "weighted_sum" and AGGREGATION not in study.training:
        training = {name: value for name, value in arm.training.items() if name != AGGREGATION}  # TRL's default
    return arm.model_copy(update={"training": training, "combine": None})


def combine_spec(study: StudyConfig, arm: Arm, root: Path, processes: int) -> CombineSpec | None:
    """The spec of an arm's method of combination in so many processes; None where TRL combines the components."""
    method = arm.combine
    if method is None:
        return None
    named = method.named(study.components)
    names = tuple(name for name in study.components if arm.weights[name] or name in named)
    weights = [arm.weights[name] for name in names]
    try:
        context = arguments_of_method(method.method, root).context
        if method.gram and "gram" not in context:
            raise StudyError(f"gram: {method.method} uses no gradients; leave gram out")
        gram = (method.gram or DEFAULT_GRAM) if "gram" in context else None
        check_settings(study.training_of(arm), study.gradients.every, gram, processes)
        functions = {name: study.components[name] for name in names if "bounds" in context}
        ranges = {name: range_of(each.function, each.parameters, root) for name, each in functions.items()}
        known = {name: list(ends) for name, ends in ranges.items() if ends}
        bounds = np.array([known.get(name, (np.nan, np.nan)) for name in names])
        check(method.method, method.parameters, names, weights, bounds, root)
    except StudyError as error:
        raise ValueError(f"combine: {error}") from None
    spec = CombineSpec(
        method=method.method,
        parameters=normalised(method.parameters),
        components=named,
        gram=gram,
        bounds=normalised(known),
    )
    return spec.model_copy(update={"code": function_digest(spec.method, root)})


def estimate_warnings(specs: Mapping[str, ArmSpec]) -> list[str]:
    """A warning about arms whose method decides a step by products of gradients that are in part estimates."""
    arms = []
    for name, spec in specs.items():
        sizes = BatchSizes.of(spec.training, spec.process_count)
        if spec.combine and spec.combine.gram == "same_step" and sizes.completions > sizes.micro_batch:
            arms.append(name)
    if not arms:
        return []
    return [
        f"combine (arm {', '.join(arms)}): gram: same_step estimates the products between a step's micro-batches for "
        "parameters of more than 65,521 numbers, which moved weights by up to 0.0007 where it was measured; with one "
        "micro-batch a step, in one process, they are exact"
    ]


def check_settings(training: dict[str, Any], every: int, gram: str | None, processes: int) -> None:
    """Refuse settings that a method replaces, and a `gram` (None: no gradients) that is not measured."""
    if training.get("num_generations") == 1:
        raise StudyError("training.num_generations: 1 leaves nothing to compare within a group; set 2 or more")
    for name, ordinary in (("scale_rewards", ("group", True)), (AGGREGATION, ("sum_then_normalize",))):
        if name in training and training[name] not in ordinary:
            raise StudyError(f"the method replaces training.{name}: {training[name]}; leave one of the two out")
    if gram and not every:
        raise StudyError("the method uses gradients, and the study measures none; set gradients.every: 1")
    sizes = BatchSizes.of(training, processes)
    if gram == "same_step" and not sizes.for_one_step:
        setting = "num_iterations" if sizes.iterations != 1 else sizes.setting
        raise StudyError(
            "gram: same_step uses the gradients of one step's completions, and here steps and generations differ; "
            f"leave training.{setting} out, or set gram: previous"
        )
