"""Command that fetches or builds the base model of a study, or fetches a reward model.

The rules `fetch` and `fetch_reward_model` run it. It joins the checks of a model alone with those of the study's
prompts.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

from reward_ablation.config.config_errors import read_spec, validate_spec
from reward_ablation.config.sections.data import Prompt
from reward_ablation.config.sections.model import DemoModel, HubModel, LocalModel, Model
from reward_ablation.models.check import MEMORY, SECONDS, check_model, check_sequence_classifier
from reward_ablation.models.fetch import Check, fetch
from reward_ablation.models.prompt import check_prompt, tell_prompt_end
from reward_ablation.system.digests import folder_fingerprint
from reward_ablation.system.errors import StudyError, one_line_errors, storage_errors
from reward_ablation.system.limits import within_limits


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line and fetch."""
    parser = argparse.ArgumentParser(prog="python -m reward_ablation.models", description=__doc__)
    parser.add_argument("--spec", required=True, help="model as JSON, as in the config's key model")
    parser.add_argument("--output", required=True, type=Path, help="model.json; its folder becomes the model's")
    parser.add_argument("--reward-model", action="store_true", help="the model is a sequence classifier")
    parser.add_argument("--prompt", help="JSON: the study's section prompt, and chat_template_kwargs")
    args = parser.parse_args(arguments)
    check: Check = check_sequence_classifier if args.reward_model else check_model
    if args.prompt:
        written = read_spec(args.prompt)
        variables = written.pop("chat_template_kwargs")
        check = partial(check_for_study, validate_spec(Prompt, written, "--prompt"), variables)

    def check_copy(folder: Path, where: str) -> tuple[int, str]:
        folder_fingerprint.cache_clear()
        parse_spec(args.spec)  # again, because a local folder was read after the first check
        return check(folder, where)

    with storage_errors(args.output.parent):
        fetch(parse_spec(args.spec), args.output, check_copy)


def check_for_study(prompt: Prompt, variables: dict[str, Any], folder: Path, where: str) -> tuple[int, str]:
    """Number of parameters and architecture of a base model, by `check_model`, before its prompts are checked."""
    checked = check_model(folder, where)
    rendered = partial(check_prompt, folder, where, prompt, variables)
    within_limits(rendered, SECONDS, MEMORY, f"{where}: the chat template")
    tell_prompt_end(folder, where, prompt, variables)  # here, because what a fork prints is lost
    return checked


def parse_spec(text: str) -> HubModel | LocalModel | DemoModel:
    """The model of a spec; refused if its local folder is no longer that by which the runs' keys were planned."""
    written = read_spec(text)
    planned = written.pop("content", None) if isinstance(written, dict) else None
    model = validate_spec(Model, written)
    if planned is not None and isinstance(model, LocalModel) and folder_fingerprint(Path(model.path)) != planned:
        raise StudyError(f"{model.path}: has changed since the workflow was planned; start the workflow again")
    return model


if __name__ == "__main__":
    with one_line_errors():
        main()
