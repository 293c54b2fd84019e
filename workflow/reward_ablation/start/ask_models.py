"""Ask the hub whether models and data sets can be fetched, and a tokenizer whether prompts fit into the context.

Each line on stdin is a JSON object with the `kind` of a question (see `_KINDS`) and, where messages do not begin with a
key of the config, this key. For each line, a JSON object is printed, whose `error` is a line or null.

python -m reward_ablation.start.ask_models
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reward_ablation.config.grpo_settings import COMPLETION_LENGTH
from reward_ablation.data.sources import REPOSITORIES
from reward_ablation.models.check import check_names
from reward_ablation.models.hub import hub_errors
from reward_ablation.sampling.context import context_of, describe_too_long, too_long
from reward_ablation.sampling.prompts import render_prompt, tokenize_prompts
from reward_ablation.sampling.tokenizer import load_tokenizer
from reward_ablation.study.run_spec import EvaluateSpec, RunSpec
from reward_ablation.system.errors import StudyError, one_line_errors
from reward_ablation.training.core.problems import training_problems

#: Seconds to wait for an answer of the hub.
PATIENCE = 10


def ask_for_model(id: str, revision: str) -> None:
    """Refuse a model that the hub does not have, or does not give to this user, or that has no safetensors."""
    from huggingface_hub import HfApi, get_hf_file_metadata, hf_hub_url, try_to_load_from_cache

    if _is_offline():
        cached = try_to_load_from_cache(id, "config.json", revision=revision)
        copy = f", or write source: local, path: {Path(cached).parent}" if isinstance(cached, str) else ""
        raise StudyError(f"{id}: HF_HUB_OFFLINE is set, and the model is not fetched yet; unset it{copy}")
    with hub_errors(id, revision):
        info = HfApi().model_info(id, revision=revision, timeout=PATIENCE)
        check_names([sibling.rfilename for sibling in info.siblings or []], id)
        get_hf_file_metadata(hf_hub_url(id, "config.json", revision=revision), timeout=PATIENCE)


def ask_for_data(source: str, revision: str) -> None:
    """Refuse a known data set that is not in the cache of `datasets` and that the hub does not give."""
    from datasets import config
    from huggingface_hub import HfApi

    if any(Path(config.HF_DATASETS_CACHE).glob(f"*/*/*/{revision}")):
        return
    repository = REPOSITORIES[source].name
    if _is_offline():
        raise StudyError(f"{repository}: HF_HUB_OFFLINE is set, and the data set is not in the cache; unset it")
    with hub_errors(repository, revision):
        HfApi().dataset_info(repository, revision=revision, timeout=PATIENCE)


def _is_offline() -> bool:
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")


def check_folder(path: str) -> None:
    """Refuse a local folder that cannot be a model in safetensors, by the names of its files."""
    check_names([each.name for each in Path(path).iterdir() if each.is_file()], path)


def check_training_prompts(spec: str, model: str, problems: str) -> None:
    """Refuse training prompts as the run with this spec will."""
    run, folder = RunSpec.parse(spec), Path(model)
    completion = run.training.get("max_completion_length", COMPLETION_LENGTH)
    training_problems(run, folder, load_tokenizer(folder), Path(problems), completion)


def check_evaluation_prompts(spec: str, model: str, problems: str, name: str) -> None:
    """Refuse the prompts of an evaluation set as the evaluation will."""
    import pyarrow.parquet as pq

    evaluation, folder = EvaluateSpec.parse(spec), Path(model)
    table = pq.read_table(problems, columns=["id", "question"]).to_pydict()
    rendered = [render_prompt(question, evaluation.prompt) for question in table["question"]]
    prompts = tokenize_prompts(
        rendered, load_tokenizer(folder), evaluation.prompt.date, evaluation.chat_template_kwargs, table["id"]
    )
    context, completion = context_of(folder), evaluation.evaluation.max_new_tokens
    if places := too_long(prompts, context, completion):
        described = describe_too_long(prompts, places, context, completion)
        raise StudyError(
            f"evaluation.max_new_tokens: {name}: {described}; lower it, or take long questions out of the set"
        )


_KINDS: dict[str, Callable[..., None]] = {
    "model": ask_for_model,
    "data": ask_for_data,
    "folder": check_folder,
    "training": check_training_prompts,
    "evaluation": check_evaluation_prompts,
}


def answered(kind: str, key: str = "", **asked: Any) -> dict[str, str | None]:
    """What is printed for one line."""
    try:
        _KINDS[kind](**asked)
    except StudyError as error:
        text = str(error)
        if kind == "data":  # the words of `hub_errors` are about models
            text = text.replace("give a folder with source: local", "give a local copy with path")
        return {"error": f"{key}: {text}" if key else text}
    return {"error": None}


@one_line_errors()
def main() -> None:
    argparse.ArgumentParser(prog="python -m reward_ablation.start.ask_models").parse_args()
    for line in sys.stdin:
        print(json.dumps(answered(**json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
