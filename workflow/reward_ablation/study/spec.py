"""Specs and keys: everything that decides a run's result, as canonical JSON, and its digest."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

from reward_ablation.config.designs import Arm
from reward_ablation.config.sections.data import Data, ProblemSource, WordProblems
from reward_ablation.config.sections.launch import Launch
from reward_ablation.config.sections.model import DemoModel, LocalModel, Model
from reward_ablation.config.sections.training import Component
from reward_ablation.config.study_config import StudyConfig
from reward_ablation.config.tracking import without_tracking
from reward_ablation.study.canonical import normalised
from reward_ablation.study.core_digest import deciding_digest
from reward_ablation.study.reward_files import file_digest
from reward_ablation.system.digests import folder_fingerprint
from reward_ablation.system.errors import StudyError
from reward_ablation.system.files import sha256


def study_spec(study: StudyConfig, root: Path) -> dict[str, Any]:
    """What decides the results of all runs alike, normalised: all but weights, overrides, processes and seed.

    Parameters
    ----------
    study : StudyConfig
    root : Path
        Folder that relative paths in the config start from.
    """
    shared = {
        "model": _without_place(model_spec(study.model, root)),
        "data": _without_place(train_data_spec(study, root)),
        "prompt": study.prompt.model_dump(),
        "components": {name: component_spec(component, root) for name, component in study.components.items()},
        "training": without_tracking(study.training),
        "lora": study.lora.model_dump() if study.lora else None,
        "gradients": study.gradients.spec(),
    }
    if study.keep_models:  # runs that keep none have the key that they had before there was the setting
        shared["keep_models"] = study.keep_models
    if study.sft:
        shared["sft"] = _without_place(sft_spec(study, root))
    return normalised(shared)


def arm_spec(shared: dict[str, Any], arm: Arm, launch: Launch) -> dict[str, Any]:
    """The study's spec with one arm's weights, overrides and processes, normalised; the seed is not part of it."""
    training = {**shared["training"], **normalised(without_tracking(arm.training))}
    return {**shared, "weights": normalised(arm.weights), "training": training, **processes_spec(launch)}


def processes_spec(launch: Launch) -> dict[str, Any]:
    """The device of a run, its processes and what samples for it; nodes, threads and resources do not change a result.

    What is left at its default has no entry, so that runs of before there was the setting keep their keys.
    """
    spec: dict[str, Any] = {"gpus": launch.gpus}
    if not launch.gpus and launch.process_count > 1:
        spec["processes"] = launch.process_count
    if launch.strategy != "ddp":
        spec["strategy"] = launch.strategy
    if launch.vllm:
        own = {"gpus": launch.vllm.server_gpus} if launch.vllm.mode == "server" else {}
        spec["vllm"] = {"mode": launch.vllm.mode, **own, "tensor_parallel_size": launch.vllm.tensor_parallel_size}
    return spec


def processes_of(spec: dict[str, Any]) -> int:
    """How many processes train a run: one a GPU, or as many as its spec says on the CPU."""
    return spec["gpus"] or spec.get("processes", 1)


def launch_packages(spec: dict[str, Any]) -> list[str]:
    """Packages that a run's layout takes beside those of every run."""
    return (["vllm"] if "vllm" in spec else []) + (["deepspeed"] if spec.get("strategy", "ddp") != "ddp" else [])


def server_gpus_of(spec: dict[str, Any]) -> int:
    """GPUs of a run's vLLM server, beside those that it trains on; none where the run is on the CPU."""
    return spec.get("vllm", {}).get("gpus", 0) if spec["gpus"] else 0


def evaluation_spec(study: StudyConfig) -> dict[str, Any]:
    """What decides the answers of a model: how it is judged, and on which prompts, normalised."""
    spec: dict[str, Any] = {
        "evaluation": study.evaluation.model_dump(),
        "prompt": study.prompt.model_dump(),
        "device": "cuda" if study.launch.gpus else "cpu",
    }
    if study.training.get("chat_template_kwargs"):  # without: the key that answers had before they were passed on
        spec["chat_template_kwargs"] = study.training["chat_template_kwargs"]
    return normalised(spec)


def _without_place(spec: Any) -> Any:
    """A spec without the path of what counts by its content: a run is the same wherever its model or data lie."""
    if isinstance(spec, list):
        return [_without_place(item) for item in spec]
    if not isinstance(spec, dict):
        return spec
    return {key: _without_place(value) for key, value in spec.items() if not (key == "path" and "content" in spec)}


def model_spec(model: Model, root: Path) -> dict[str, Any]:
    """A model source, and a digest of its content where no revision says it: a local folder, the demo's code."""
    spec = model.model_dump()
    if isinstance(model, LocalModel):
        spec["content"] = folder_fingerprint(root / model.path)
    elif isinstance(model, DemoModel):
        spec["content"] = deciding_digest("demo_model")
    return spec


def data_spec(source: ProblemSource, root: Path) -> dict[str, Any]:
    """A data source, and a digest of its content where no revision says it: a local file, the generator's code."""
    spec = source.model_dump()
    if isinstance(source, WordProblems):
        spec["content"] = deciding_digest("word_problems")
    elif source.path is not None:
        spec["content"] = local_digest(root / source.path)
    return spec


def train_data_spec(study: StudyConfig, root: Path) -> dict[str, Any]:
    """The training set's source and checks."""
    return checked_data_spec(study.data, study.data.train, root)


def checked_data_spec(data: Data, source: ProblemSource, root: Path) -> dict[str, Any]:
    """What is trained on, and the checks that it is held apart from the evaluation sets by, normalised.

    The evaluation sets count only where their questions are dropped from training.
    """
    spec: dict[str, Any] = {
        "source": data_spec(source, root),
        "duplicates": data.duplicates,
        "overlap": data.overlap,
    }
    if data.overlap == "drop":
        spec["apart_from"] = [data_spec(source, root) for source in data.evaluation.values()]
    return normalised(spec)


def sft_data_spec(study: StudyConfig, root: Path) -> dict[str, Any]:
    """The demonstrations' source and checks, which are those of the training set."""
    assert study.sft
    return checked_data_spec(study.data, study.sft.data, root)


def sft_spec(study: StudyConfig, root: Path) -> dict[str, Any]:
    """What decides the supervised start, but for the model that it starts from, normalised."""
    assert study.sft
    spec: dict[str, Any] = {
        **study.sft.model_dump(exclude={"data", "completion"}),
        "completion": study.sft.templates,
        "data": sft_data_spec(study, root),
        "prompt": study.prompt.model_dump(),
        "device": "cuda" if study.launch.gpus else "cpu",
    }
    if study.training.get("chat_template_kwargs"):
        spec["chat_template_kwargs"] = study.training["chat_template_kwargs"]
    return normalised(spec)


def component_spec(component: Component, root: Path) -> dict[str, Any]:
    """A component; a user's file counts by the digest of its syntax tree and of those that it imports."""
    spec = component.model_dump()
    file, separator, _ = component.function.partition(":")
    if separator:
        spec["code"] = file_digest(root / file, root)
    return spec


@cache
def local_digest(path: Path) -> str:
    """SHA-256 of a local data file.

    Raises
    ------
    StudyError
        There is no such file.
    """
    if not os.path.isfile(path):  # Path.is_file raises where a name is too long
        raise StudyError(f"data: {path}: no such file; give the path of a JSON, JSONL, CSV or Parquet file")
    return sha256(path)
