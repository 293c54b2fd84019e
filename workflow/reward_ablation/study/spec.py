"""From a config to specs. A spec holds everything that decides a result, with digests of local files and folders."""

from __future__ import annotations

import os
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from reward_ablation.config.designs import Arm
from reward_ablation.config.sections.data import Data, ProblemSource, WordProblems
from reward_ablation.config.sections.launch import Launch
from reward_ablation.config.sections.model import DemoModel, LocalModel, Model
from reward_ablation.config.sections.training import Component
from reward_ablation.config.study_config import StudyConfig
from reward_ablation.config.tracking import without_tracking
from reward_ablation.spec.canonical import normalised
from reward_ablation.spec.parts import (
    CombineSpec,
    DataSpec,
    MetricSpec,
    ModelSpec,
    TrainDataSpec,
    without_defaults,
)
from reward_ablation.spec.run import ArmSpec, EvaluateSpec, Layout, ScoresSpec, SftSpec, StudySpec, VllmSpec
from reward_ablation.study.component_spec import component_spec
from reward_ablation.study.core_digest import deciding_digest
from reward_ablation.study.golds import demonstration_golds, evaluation_golds, training_golds
from reward_ablation.system.digests import folder_fingerprint
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import sha256


def study_spec(study: StudyConfig, root: Path) -> StudySpec:
    """Everything that decides the results of all runs in the same way: all but weights, overrides, processes and seed.

    Relative paths in the config start from `root`, in this function and in those below.
    """
    shared = {
        "model": _without_place(model_spec(study.model, root)),
        "data": {**_without_place(train_data_spec(study, root).content()), "too_long": study.data.train.too_long},
        "prompt": study.prompt.model_dump(),
        "components": {
            name: without_defaults(component_spec(component, root, name))
            for name, component in study.components.items()
        },
        "training": without_tracking(study.training),
        "lora": study.lora.model_dump() if study.lora else None,
        "gradients": study.gradients.model_dump(),
        "keep_models": study.keep_models,
        "sft": _without_place(sft_spec(study, root).content()) if study.sft else None,
    }
    return StudySpec.model_validate(normalised(shared))


def arm_spec(
    shared: StudySpec, arm: Arm, launch: Launch, scored: Collection[str], combine: CombineSpec | None = None
) -> ArmSpec:
    """The study's spec with one arm's weights, overrides and processes, but without a seed.

    `shared` is the part that all arms share. Only the components in `scored`, which score the arm's completions, are
    part of the arm's spec. `combine` is None where TRL combines the components.
    """
    own = {
        "training": {**shared.training, **normalised(without_tracking(arm.training))},
        "components": {name: component for name, component in shared.components.items() if name in scored},
        "weights": {name: weight for name, weight in normalised(arm.weights).items() if name in scored},
        "combine": combine,
    }
    return ArmSpec.model_validate({**dict(shared), **dict(layout_of(launch)), **own})


def contents_of(shared: StudySpec, specs: dict[str, ArmSpec]) -> dict[str, dict[str, Any]]:
    """The `content` of each arm's spec, by arm. The part that all arms share is computed only once."""
    own = {*ArmSpec.model_fields} - {*StudySpec.model_fields} | {"training"}
    common = shared.content()
    contents = {}
    for name, spec in specs.items():
        scored = {component: common["components"][component] for component in spec.components}
        dumped = normalised(spec.model_dump(include=own, exclude_defaults=True))
        contents[name] = {**common, "components": scored, **dumped}
    return contents


def layout_of(launch: Launch) -> Layout:
    """The device of a run, its processes, and how its rollouts are sampled."""
    vllm = launch.vllm and VllmSpec(
        mode=launch.vllm.mode, tensor_parallel_size=launch.vllm.tensor_parallel_size, gpus=launch.vllm.server_gpus
    )
    processes = 1 if launch.gpus else launch.process_count
    return Layout(gpus=launch.gpus, processes=processes, strategy=launch.strategy, vllm=vllm)


def evaluation_spec(study: StudyConfig) -> EvaluateSpec:
    """Everything that decides a model's answers: the settings of evaluation, and the prompts."""
    return EvaluateSpec.model_validate(
        {
            "evaluation": study.evaluation.model_dump(exclude={"metrics"}),
            "prompt": study.prompt.model_dump(),
            "device": "cuda" if study.launch.gpus else "cpu",
            "chat_template_kwargs": study.training.get("chat_template_kwargs") or {},
        }
    )


def scores_spec(study: StudyConfig, root: Path) -> ScoresSpec:
    """Everything that decides the scores of answers by the study's own metrics."""
    metrics = {
        name: metric_spec(name, function, parameters, root)
        for name, (function, parameters) in study.metric_functions().items()
    }
    return ScoresSpec(metrics=metrics, device="cuda" if study.launch.gpus else "cpu")


def metric_spec(name: str, function: str, parameters: dict[str, Any], root: Path) -> MetricSpec:
    """The spec of a metric of the study's own, made by `component_spec`. `name` is for the message of an error."""
    try:
        component = component_spec(Component(function=function, parameters=parameters), root, name)
    except StudyError as error:
        raise StudyError(f"evaluation.metrics.{str(error).removeprefix('components.')}") from None
    return MetricSpec(**{field: getattr(component, field) for field in MetricSpec.model_fields})


def _without_place(spec: Any) -> Any:
    """A spec without the paths of files and folders whose content it has: a run does not depend on their location."""
    if isinstance(spec, list):
        return [_without_place(item) for item in spec]
    if not isinstance(spec, dict):
        return spec
    return {key: _without_place(value) for key, value in spec.items() if not (key == "path" and "content" in spec)}


def model_spec(model: Model, root: Path) -> dict[str, Any]:
    """A model's source. Without a revision, with a digest: of a local folder, or of the code of the demo's model."""
    spec = model.model_dump()
    if isinstance(model, LocalModel):
        spec["content"] = folder_fingerprint(root / model.path)
    elif isinstance(model, DemoModel):
        spec["content"] = deciding_digest("demo_model")
    return without_defaults(TypeAdapter(ModelSpec).validate_python(spec))


def source_spec(source: ProblemSource, root: Path) -> dict[str, Any]:
    """A data source. Without a revision, with a digest: of a local file, or of the code that generates problems."""
    spec = source.model_dump(exclude={"too_long"})  # decided when a run starts, not when the set is prepared
    if isinstance(source, WordProblems):
        spec["content"] = deciding_digest("word_problems")
    elif source.path is not None:
        spec["content"] = local_digest(root / source.path)
    return spec


def data_spec(study: StudyConfig, source: ProblemSource, root: Path) -> DataSpec:
    """An evaluation set's source and checks."""
    golds = evaluation_golds(study, root)
    return DataSpec.model_validate(
        {"source": source_spec(source, root), "duplicates": study.data.duplicates, "golds": golds}
    )


def train_data_spec(study: StudyConfig, root: Path) -> TrainDataSpec:
    """The training set's source and checks."""
    return checked_data_spec(study.data, study.data.train, root, training_golds(study, root))


def checked_data_spec(data: Data, source: ProblemSource, root: Path, golds: bool) -> TrainDataSpec:
    """The spec of a set to train on, with its checks, such as for questions that evaluation sets have too.

    The evaluation sets are part of the spec only if their questions are dropped from training. `golds` says whether
    problems need answers.
    """
    others = data.evaluation.values() if data.overlap == "drop" else []
    return TrainDataSpec.model_validate(
        {
            "source": source_spec(source, root),
            "duplicates": data.duplicates,
            "overlap": data.overlap,
            "apart_from": [source_spec(other, root) for other in others],
            "golds": golds,
        }
    )


def sft_data_spec(study: StudyConfig, root: Path) -> TrainDataSpec:
    """The demonstrations' source and checks. The checks are the same as for the training set."""
    assert study.sft
    return checked_data_spec(study.data, study.sft.data, root, demonstration_golds(study))


def sft_spec(study: StudyConfig, root: Path) -> SftSpec:
    """Everything that decides the supervised start, except the model that it starts from."""
    assert study.sft
    return SftSpec.model_validate(
        {
            **study.sft.model_dump(exclude={"data", "completion"}),
            "completion": study.sft.templates,
            "data": sft_data_spec(study, root).content(),
            "prompt": study.prompt.model_dump(),
            "device": "cuda" if study.launch.gpus else "cpu",
            "chat_template_kwargs": study.training.get("chat_template_kwargs") or {},
        }
    )


@cache
def local_digest(path: Path) -> str:
    """SHA-256 of a local data file. A missing file is a StudyError."""
    if not os.path.isfile(path):  # Path.is_file raises where a name is too long
        raise StudyError(f"data: {path}: no such file; give the path of a JSON, JSONL, CSV or Parquet file")
    return sha256(path)
