"""Checks that import torch: models and data sets, lengths of prompts, adapters, and TRL's rules for the settings.

The full check (`start.full_check`) calls each in a fork, so that the start itself does not import torch. The digest of
this module and its imports is kept with settings that TRL has accepted, which are not checked again while all stay.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset
from transformers import GenerationConfig, Trainer, get_scheduler
from transformers.integrations import get_reporting_integration_callbacks

from reward_ablation.config.trl_settings import COMPLETION_LENGTH
from reward_ablation.data.sources import REPOSITORIES
from reward_ablation.models.check import check_names
from reward_ablation.models.fetch import hub_errors
from reward_ablation.sampling.context import context_of, describe_too_long, too_long
from reward_ablation.sampling.prompts import render_prompt, tokenize_prompts
from reward_ablation.sampling.tokenizer import load_tokenizer
from reward_ablation.sft.settings import sft_config
from reward_ablation.spec.run import EvaluateSpec, Layout, RunSpec
from reward_ablation.system.errors import StudyError
from reward_ablation.training.around.adapters import check_adapters
from reward_ablation.training.around.launch.processes import check_installed
from reward_ablation.training.core.generation.by_transformers import warpers
from reward_ablation.training.core.problems import training_problems
from reward_ablation.training.core.settings import grpo_config

#: Seconds to wait for an answer of the hub.
PATIENCE = 10


def check_folder(path: Path) -> None:
    """Refuse a local folder that cannot be a model in safetensors, by the names of its files."""
    check_names([each.name for each in path.iterdir() if each.is_file()], str(path))


def ask_for_model(name: str, revision: str) -> None:
    """Refuse a model that the hub does not have or does not give to this user, or that has no safetensors."""
    from huggingface_hub import HfApi, get_hf_file_metadata, hf_hub_url, is_offline_mode, try_to_load_from_cache

    if is_offline_mode():
        cached = try_to_load_from_cache(name, "config.json", revision=revision)
        copy = f", or write source: local, path: {Path(cached).parent}" if isinstance(cached, str) else ""
        raise StudyError(f"{name}: HF_HUB_OFFLINE is set, and the model is not fetched yet; unset it{copy}")
    with hub_errors(name, revision):
        info = HfApi().model_info(name, revision=revision, timeout=PATIENCE)
        check_names([sibling.rfilename for sibling in info.siblings or []], name)
        get_hf_file_metadata(hf_hub_url(name, "config.json", revision=revision), timeout=PATIENCE)  # refused if gated


def ask_for_data(source: str, revision: str) -> None:
    """Refuse a known data set that is not in the cache of `datasets` and that the hub does not give."""
    from datasets import config
    from huggingface_hub import HfApi, is_offline_mode

    if any(Path(config.HF_DATASETS_CACHE).glob(f"*/*/*/{revision}")):
        return
    repository = REPOSITORIES[source].name
    if is_offline_mode():
        raise StudyError(f"{repository}: HF_HUB_OFFLINE is set, and the data set is not in the cache; unset it")
    try:
        with hub_errors(repository, revision):
            HfApi().dataset_info(repository, revision=revision, timeout=PATIENCE)
    except StudyError as error:
        raise StudyError(str(error).replace("a folder with source: local", "a local copy with path")) from None


def check_prompts(model: Path, run: str | None, evaluation: str, files: Mapping[str, Path]) -> None:
    """Refuse prompts that are too long for a model, as the jobs will; `files` are prepared sets by key."""
    import pyarrow.parquet as pq

    tokenizer = load_tokenizer(model)
    if run and "data.train" in files:
        spec = RunSpec.parse(run)
        completion = spec.training.get("max_completion_length", COMPLETION_LENGTH)
        training_problems(spec, model, tokenizer, files["data.train"], completion)
    judged, context = EvaluateSpec.parse(evaluation), context_of(model)
    for key, path in files.items():
        if not key.startswith("data.evaluation."):
            continue
        table = pq.read_table(path, columns=["id", "question"]).to_pydict()
        rendered = [render_prompt(question, judged.prompt) for question in table["question"]]
        variables = judged.chat_template_kwargs
        prompts = tokenize_prompts(rendered, tokenizer, judged.prompt.date, variables, table["id"])
        completion = judged.evaluation.max_new_tokens
        if places := too_long(prompts, context, completion):
            described = describe_too_long(prompts, places, context, completion)
            name = key.rpartition(".")[2]
            raise StudyError(
                f"evaluation.max_new_tokens: {name}: {described}; lower it, or take long questions out of the set"
            )


def check_layers(model: Path, loras: Mapping[str, Any]) -> None:
    """Refuse adapters of layers that a model does not have, as the jobs will; `loras` has sections by their names."""
    for section, lora in loras.items():
        check_adapters(model, lora, section)


def as_one_process(settings: dict[str, Any], gpus: int, processes: int) -> dict[str, Any]:
    """Change settings so that TRL judges them in one process, perhaps without a GPU, as in the run's processes."""
    if processes > 1:
        per_process = settings.get("per_device_train_batch_size", 8)  # TRL's default
        settings = {**settings, "per_device_train_batch_size": processes * per_process}
    if gpus == 0:
        return settings
    return {name: value for name, value in settings.items() if name not in ("tf32", "fp16")} | {"bf16": False}


def check_settings(lines: Iterable[str]) -> None:
    """Have TRL check JSON objects: settings `training` with a `layout`, or a supervised start's `sft` with `gpus`."""
    for line in lines:
        run = json.loads(line)
        if "sft" in run:
            settings = as_one_process(run["sft"], run["gpus"], 1)
            try_parts("sft.training", sft_config(settings, Path("unused"), seed=0, on_cpu=run["gpus"] == 0))
            continue
        layout = Layout.read(run["layout"], "layout")
        check_installed(layout)
        settings = as_one_process(run["training"], layout.gpus, layout.process_count)
        config = grpo_config(settings, Path("unused"), seed=0, on_cpu=layout.gpus == 0, vllm=layout.vllm)
        try_parts("training", config)
        with _refused("training", "report_to"):
            for tracker in get_reporting_integration_callbacks(config.report_to):
                tracker()
        if layout.vllm is None:
            with _refused("training", "sampling settings"):
                names = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "cache_implementation")
                sampling = {name: getattr(config, name) for name in names}
                more: Any = config.generation_kwargs or {}
                warpers(GenerationConfig(do_sample=True, **sampling, **more))


def try_parts(section: str, config: Any) -> None:
    """Make the optimizer, schedule and data loader of a trainer, for a model of one weight: TRL's config tries none."""
    layer: Any = torch.nn.Linear(1, 1)
    if config.use_liger_kernel and find_spec("liger_kernel") is None:
        raise StudyError(f"{section}: use_liger_kernel: the package is not installed; pip install liger-kernel")
    with _refused(section, "optim and its settings"):
        if config.optim_target_modules is None:  # else it trains layers that only the real model has
            kind, arguments = Trainer.get_optimizer_cls_and_kwargs(config, layer)
            kind(arguments.pop("model", layer.parameters()), **arguments)
    with _refused(section, "lr_scheduler_type and lr_scheduler_kwargs"):
        optimizer = torch.optim.SGD(layer.parameters(), lr=config.learning_rate)
        get_scheduler(config.lr_scheduler_type, optimizer, 1, 2, config.lr_scheduler_kwargs)
    with _refused(section, "dataloader settings"):
        names = ("num_workers", "prefetch_factor", "persistent_workers", "multiprocessing_context")
        DataLoader(TensorDataset(), **{name: getattr(config, f"dataloader_{name}") for name in names})
    with _refused(section, "gradient_checkpointing_kwargs"):
        how: Any = config.gradient_checkpointing_kwargs or {}
        checkpoint(layer, torch.zeros(1, 1, requires_grad=True), **{"use_reentrant": False, **how})


@contextmanager
def _refused(section: str, settings: str) -> Iterator[None]:
    """A StudyError for what the trainer refuses of some `settings` in a section of the config."""
    try:
        yield
    except Exception as error:  # of transformers, torch, or an optimizer's package
        reason = " ".join(str(error).split()) or type(error).__name__
        raise StudyError(f"{section}: {settings}: refused by the trainer: {reason}") from None
