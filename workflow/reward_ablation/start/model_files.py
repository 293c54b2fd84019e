"""Checks of models and data sets that are to be fetched, and of the lengths of prompts. They import torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from reward_ablation.config.trl_settings import COMPLETION_LENGTH
from reward_ablation.data.sources import REPOSITORIES
from reward_ablation.models.check import check_names
from reward_ablation.models.fetch import hub_errors
from reward_ablation.sampling.context import context_of, describe_too_long, too_long
from reward_ablation.sampling.prompts import render_prompt, tokenize_prompts
from reward_ablation.sampling.tokenizer import load_tokenizer
from reward_ablation.spec.run import EvaluateSpec, RunSpec
from reward_ablation.system.errors import StudyError
from reward_ablation.training.core.problems import training_problems

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
    """Refuse prompts that are too long for a model, as the jobs will.

    `run` is the spec of a run, and `evaluation` that of the evaluations. `files` are prepared sets by key.
    """
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
