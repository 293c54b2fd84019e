"""From a config to specs. A spec holds everything that decides a result, with digests of local files and folders.

`study.resolve` calls most of these functions. A spec is then the param of its job, and its digest names a folder of
results. In order: the study and its arms, evaluation and metrics, models and data, components, and which sets of
problems need answers, and methods of combination. Relative paths in a config start from `root`.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import TypeAdapter, ValidationError

from reward_ablation.combination.load import arguments_of_method, check
from reward_ablation.config.config_errors import describe
from reward_ablation.config.designs import Arm
from reward_ablation.config.sections.data import ProblemSource, WordProblems, further_columns, has_answers
from reward_ablation.config.sections.launch import Launch
from reward_ablation.config.sections.model import DemoModel, HubModel, LocalModel, Model
from reward_ablation.config.sections.training import AGGREGATION, DEFAULT_GRAM, TRL_AGGREGATIONS, Component
from reward_ablation.config.study_config import StudyConfig
from reward_ablation.config.trl_settings import BatchSizes, without_tracking
from reward_ablation.rewards.load import marks_of_component
from reward_ablation.rewards.parameters import Mark
from reward_ablation.spec.canonical import key_of, normalised
from reward_ablation.spec.parts import (
    CombineSpec,
    ComponentSpec,
    DataSpec,
    MetricSpec,
    ModelSpec,
    TrainDataSpec,
    without_defaults,
)
from reward_ablation.spec.run import ArmSpec, EvaluateSpec, Layout, ScoresSpec, SftSpec, StudySpec, VllmSpec
from reward_ablation.study.core_digest import deciding_digest
from reward_ablation.study.reward_files import function_digest, is_code_of
from reward_ablation.study.reward_import import planned_arguments, planned_marks, range_of
from reward_ablation.system.digests import folder_fingerprint
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import sha256


def study_spec(study: StudyConfig, root: Path) -> StudySpec:
    """What decides the results of all runs alike: all but the seed, and an arm's weights, overrides and layout."""
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
    """The study's spec (`shared`) with one arm's weights, overrides and processes, and the components in `scored`."""
    own = {
        "training": {**shared.training, **normalised(without_tracking(arm.training))},
        "components": {name: component for name, component in shared.components.items() if name in scored},
        "weights": {name: weight for name, weight in normalised(arm.weights).items() if name in scored},
        "combine": combine,
    }
    return ArmSpec.model_validate({**dict(shared), **dict(layout_of(launch)), **own})


def layout_of(launch: Launch) -> Layout:
    """The GPUs or processes of a run, and how vLLM samples its rollouts. On GPUs each has its process."""
    vllm = launch.vllm and VllmSpec(
        mode=launch.vllm.mode, tensor_parallel_size=launch.vllm.tensor_parallel_size, gpus=launch.vllm.server_gpus
    )
    processes = 1 if launch.gpus else launch.process_count
    return Layout(gpus=launch.gpus, processes=processes, strategy=launch.strategy, vllm=vllm)


def _prompts_of(study: StudyConfig) -> dict[str, Any]:
    """How all models of a study read questions, and on which device, as the fields of a spec."""
    return {
        "prompt": study.prompt.model_dump(),
        "device": study.launch.device,
        "chat_template_kwargs": study.chat_template_kwargs,
    }


def evaluation_spec(study: StudyConfig) -> EvaluateSpec:
    """What decides a model's answers beside code and questions: the settings of evaluation, the prompts, the device."""
    settings = study.evaluation.model_dump(exclude={"metrics"})
    return EvaluateSpec.model_validate({"evaluation": settings, **_prompts_of(study)})


def scores_spec(study: StudyConfig, root: Path) -> ScoresSpec:
    """Everything that decides the scores of answers by the study's own metrics."""
    metrics = {}
    for name, (function, parameters) in study.metric_functions().items():
        try:
            component = component_spec(Component(function=function, parameters=parameters), root, name)
        except StudyError as error:
            raise StudyError(f"evaluation.metrics.{str(error).removeprefix('components.')}") from None
        metrics[name] = MetricSpec(**{field: getattr(component, field) for field in MetricSpec.model_fields})
    return ScoresSpec(metrics=metrics, device=study.launch.device)


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


def keys_of_measured(study: StudyConfig, dataset: str, metric: str, root: Path) -> dict[str, str]:
    """Keys of what a question's names stand for: a set's source and, of an own metric, the function and the range."""
    # Without mathematics, pass@k is of the first own metric. Settings that only refuse a set do not count.
    keys = {
        "dataset": key_of(_without_place(data_spec(study, study.data.evaluation[dataset], root).content()["source"]))
    }
    own = study.evaluation.metrics
    first = next(iter(own), metric) if study.evaluation.answer_format is None else metric
    if (name := first if metric.startswith("pass@") else metric) in own:
        judging = scores_spec(study, root).content()["metrics"][name]
        keys["metric"] = key_of(normalised({**judging, "range": own[name].range}))
    return keys


def train_data_spec(study: StudyConfig, root: Path) -> TrainDataSpec:
    """The training set's source and checks."""
    source = study.data.train
    return _checked_spec(study, source, _always_had_golds(source) or bool(asking_components(study, root)), root)


def sft_data_spec(study: StudyConfig, root: Path) -> TrainDataSpec:
    """The demonstrations' source and checks. The checks are the same as for the training set."""
    assert study.sft
    return _checked_spec(study, study.sft.data, demonstration_golds(study), root)


def _checked_spec(study: StudyConfig, source: ProblemSource, golds: bool, root: Path) -> TrainDataSpec:
    """The spec of a set to train on. Evaluation sets are in it only if their questions are dropped."""
    others = study.data.evaluation.values() if study.data.overlap == "drop" else []
    return TrainDataSpec.model_validate(
        {
            "source": source_spec(source, root),
            "duplicates": study.data.duplicates,
            "overlap": study.data.overlap,
            "apart_from": [source_spec(other, root) for other in others],
            "golds": golds,
        }
    )


def sft_spec(study: StudyConfig, root: Path) -> SftSpec:
    """Everything that decides the supervised start, except the model that it starts from."""
    assert study.sft
    own = study.sft.model_dump(exclude={"data", "completion"})
    data = sft_data_spec(study, root).content()
    return SftSpec.model_validate({**own, "completion": study.sft.templates, "data": data, **_prompts_of(study)})


@cache
def local_digest(path: Path) -> str:
    """SHA-256 of a local data file. A missing file is a StudyError."""
    if not os.path.isfile(path):  # Path.is_file raises where a name is too long
        raise StudyError(f"data: {path}: no such file; give the path of a JSON, JSONL, CSV or Parquet file")
    return sha256(path)


class Divided(NamedTuple):
    """A component's parameters, divided by whether they are part of the spec."""

    deciding: dict[str, Any]  # parameters in the spec
    others: dict[str, Any]  # parameters that are not in the spec
    contents: dict[str, str]  # digests of the files and folders that parameters name, by parameter


def component_spec(component: Component, root: Path, name: str) -> ComponentSpec:
    """The spec of a component, with digests of a user's code and of the files and folders that parameters name."""
    spec = ComponentSpec.model_validate(component.model_dump(exclude={"scored"}))
    try:
        divided = divide(spec.function, spec.parameters, root)
        code = function_digest(spec.function, root)
    except StudyError as error:
        raise StudyError(f"components.{name}: {str(error).removeprefix('components: ')}") from None
    own: dict[str, Any] = {"parameters": divided.deciding, "contents": divided.contents, "code": code}
    return spec.model_copy(update={name: value for name, value in own.items() if value is not None})


def divide(function: str, parameters: dict[str, Any], root: Path, marks: dict[str, Mark] | None = None) -> Divided:
    """Divide a component's parameters by their markers, `marks`; without these, by the markers that planning reads."""
    marks = planned_marks(function, root) if marks is None else marks
    if parameters.get("revision") is not None:  # a model from the hub: the spec has its name and commit
        for name in [name for name, mark in marks.items() if mark is Mark.MODEL and name in parameters]:
            try:
                HubModel(id=parameters[name], revision=parameters["revision"])
            except ValidationError as error:
                raise StudyError(f"components: {name}: {describe(error, {}).partition(': ')[2]}") from None
        marks = {name: mark for name, mark in marks.items() if mark is not Mark.MODEL}
    deciding = {name: value for name, value in parameters.items() if name not in marks}
    others = {name: value for name, value in parameters.items() if name in marks}
    contents = {
        name: _content(name, value, marks[name], root)
        for name, value in others.items()
        if value is not None and marks[name] is not Mark.NOT_IN_SPEC
    }
    return Divided(deciding, others, contents)


def check_unchanged(part: ComponentSpec | MetricSpec | CombineSpec, parameters: dict[str, Any], root: Path) -> None:
    """Refuse a loaded user's file, or a file that a parameter names, if it has changed since the spec was made."""
    # Reward models are left out: the workflow has verified copies of its own.
    function = part.method if isinstance(part, CombineSpec) else part.function
    if not isinstance(part, CombineSpec):
        marks = marks_of_component(function, root)
        others = {name: value for name, value in parameters.items() if marks.get(name) is not Mark.MODEL}
        for name, content in divide(function, others, root, marks).contents.items():
            if content != part.contents.get(name):
                changed = f"{name}: {parameters[name]} has changed"
                raise StudyError(f"{changed} since the workflow was started; start it again")
    if part.code and not is_code_of(function, part.code, root):
        raise StudyError(
            f"{function.rpartition(':')[0]}: the file, or one that it imports, has changed since the workflow was "
            "started; start it again"
        )


def _content(name: str, value: Any, mark: Mark, root: Path) -> str:
    """Digest of the file or folder that a parameter names."""
    if not isinstance(value, str):
        raise StudyError(f"components: {name}: give the path in the config: the content there decides the runs' keys")
    path, where = root / value, f"components: {name}: {value}"
    if mark is Mark.FILE:
        if not os.path.isfile(path):  # Path.is_file raises where a name is too long
            raise StudyError(f"{where}: no such file; a relative path starts from the study's folder")
        return sha256(path)
    if not os.path.isdir(path):
        advice = "a relative path starts from the study's folder"
        if mark is Mark.MODEL:
            advice = "for a model from the hub give `revision` too, the full hash of a commit"
        raise StudyError(f"{where}: no such folder; {advice}")
    if not os.path.isfile(path / "config.json"):
        raise StudyError(f"{where}: no config.json; give a folder with a saved transformers model")
    return folder_fingerprint(path)


def evaluation_golds(study: StudyConfig, root: Path) -> bool:
    """Whether problems of evaluation sets need answers."""
    return study.evaluation.answer_format is not None or bool(asking_metrics(study, root))


def demonstration_golds(study: StudyConfig) -> bool:
    """Whether demonstrations of the supervised start need answers."""
    assert study.sft
    return _always_had_golds(study.sft.data) or any("{answer}" in template for template in study.sft.templates)


def asking_components(study: StudyConfig, root: Path) -> list[str]:
    """Names of the components that ask for the column `answer`."""
    return _asking(study.component_functions(), [study.data.train], root)


def asking_metrics(study: StudyConfig, root: Path) -> list[str]:
    """Names of the study's own metrics that ask for the column `answer`."""
    return _asking(study.metric_functions(), study.data.evaluation.values(), root)


def _asking(functions: dict[str, tuple[str, dict[str, Any]]], sets: Iterable[ProblemSource], root: Path) -> list[str]:
    further = [column for source in sets for column in further_columns(source)]
    return [
        name
        for name, (function, parameters) in functions.items()
        if "answer" in planned_arguments(function, parameters, root, further).asked
    ]


def check_answers(study: StudyConfig, root: Path) -> None:
    """Refuse data without answers if a component, a metric or a template needs answers."""
    if not has_answers(study.data.train) and (asking := asking_components(study, root)):
        raise ValueError(
            f"data.train: {_without_answers(study.data.train)}, and components.{asking[0]} asks for them; take the "
            "component out, or train on data with answers"
        )
    for name, source in study.data.evaluation.items():
        if evaluation_golds(study, root) and not has_answers(source):
            asking = asking_metrics(study, root) if study.evaluation.answer_format is None else []
            key = f"metrics.{asking[0]}" if asking else "answer_format"
            raise ValueError(
                f"data.evaluation.{name}: {_without_answers(source)}, and evaluation.{key} grades by them; "
                f"leave {key} out, or evaluate on data with answers"
            )
    if study.sft and not has_answers(study.sft.data) and demonstration_golds(study):
        raise ValueError(
            f"sft.data: {_without_answers(study.sft.data)}, and a template of sft.completion has {{answer}}; use "
            "{solution} or {working}"
        )


def _always_had_golds(source: ProblemSource) -> bool:
    """Whether a set to train on counts as needing answers even if nothing asks for them, as existing keys have it."""
    return has_answers(source) and not further_columns(source)


def _without_answers(source: ProblemSource) -> str:
    return "columns.answer is null" if source.source == "file" else f"{source.source} has no answers"


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
