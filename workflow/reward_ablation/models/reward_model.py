"""Sequence-classification models as rewards: loaded once per process, without an effect on the rest of training.

The component `rewards.components.reward_model` asks for the scores. It imports no torch, so `reward_model_host` has
this module load the models for it, in the processes of a run and in the job of the rule `score`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification

from reward_ablation.rewards.components.reward_model import (
    ModelScores,
    RewardModelSettings,
    Scorer,
    open_models_with,
    opened,
)
from reward_ablation.sampling.prompts import DATE, template_variables
from reward_ablation.sampling.tokenizer import load_tokenizer
from reward_ablation.system.errors import StudyError


def host_reward_models(device: str = "cpu", folders: Mapping[str, str | Path] | None = None) -> None:
    """Have the component `reward_model` run its models in this process; `folders` of fetched ones by reference."""
    # A model without a folder there is read from the folder that its parameter names, on first use.
    places = {reference: Path(folder) for reference, folder in (folders or {}).items()}
    open_models_with(cache(partial(open_model, device=device, folders=places)))


def open_reward_model(parameters: Mapping[str, Any]) -> None:
    """Load the model of these parameters now, after `host_reward_models`; errors as in `open_model`."""
    opened(RewardModelSettings(**parameters))


def open_model(settings: RewardModelSettings, device: str, folders: Mapping[str, Path]) -> Scorer:
    """Load a reward model; StudyError if it is not here, does not fit, or is no sequence classifier."""
    folder = folders.get(settings.reference, Path(settings.model) if settings.revision is None else None)
    if folder is None or not (folder / "config.json").is_file():
        raise StudyError(
            f"model: {settings.model}: there is no folder with this model here; start the workflow, which fetches it"
        )
    return RewardModel(folder, settings, torch.device(device))


class RewardModel:
    """The component's `Scorer`: a sequence-classification model and its tokenizer, on one device."""

    def __init__(self, folder: Path, settings: RewardModelSettings, device: torch.device):
        self.settings, self.device = settings, device
        self.tokenizer: Any = load_tokenizer(folder, settings.model)
        self.tokenizer.truncation_side = "left"  # the end of the completion stays
        self.model = _load(folder, settings, device)
        config = self.model.config.get_text_config()
        # As in TRL: the score is read at the last token but pad tokens; where the end token pads, before the end.
        config.pad_token_id = self.tokenizer.pad_token_id
        _check_length(self.model, settings)
        _check_vocabulary(self.model, self.tokenizer, settings)
        self.column, self.activation = _output(self.model.config, settings)

    def __call__(self, questions: Sequence[str], completions: Sequence[str]) -> ModelScores:
        """Scores of completions to questions, and how many inputs were cut."""
        inputs, cut = self._tokens([self._text(*pair) for pair in zip(questions, completions, strict=True)])
        # Inputs of similar length share a batch, which saves padding.
        order = sorted(range(len(inputs)), key=lambda place: len(inputs[place]))
        scores = [0.0] * len(inputs)
        size = self.settings.batch_size
        for start in range(0, len(order), size):
            places = order[start : start + size]
            for place, score in zip(places, self._scores([inputs[place] for place in places]), strict=True):
                scores[place] = score
        return ModelScores(scores, cut)

    def _text(self, question: str, completion: str) -> str:
        if self.tokenizer.chat_template is None:
            return f"{question}\n{completion}"
        messages = [{"role": "user", "content": question}, {"role": "assistant", "content": completion}]
        # A score must not depend on the day, nor on the study.
        text: str = self.tokenizer.apply_chat_template(messages, tokenize=False, **template_variables(DATE))
        return text

    def _tokens(self, texts: list[str]) -> tuple[list[list[int]], int]:
        """Token ids of texts, and the number of texts that were cut."""
        # A chat template writes the special tokens itself, and these are cut like text. Plain text gets the
        # tokenizer's, such as the first token, where an encoder's score is read; a cut text keeps them.
        plain = self.tokenizer.chat_template is None
        ids = self.tokenizer(texts, add_special_tokens=plain, verbose=False)["input_ids"]
        longest = self.settings.max_length
        too_long = [place for place, tokens in enumerate(ids) if len(tokens) > longest]
        for place in too_long:
            short = self.tokenizer(texts[place], add_special_tokens=plain, truncation=True, max_length=longest)
            ids[place] = short["input_ids"]
        return ids, len(too_long)

    def _scores(self, ids: list[list[int]]) -> list[float]:
        """Scores of one batch."""
        batch = self.tokenizer.pad({"input_ids": ids}, padding_side="right", return_tensors="pt").to(self.device)
        # On the right in every model, as in TRL. The gradients and the autocast of training do not reach the model.
        with torch.inference_mode(), torch.autocast(self.device.type, enabled=False):
            logits = self.model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits.float()
            scores: list[float] = self.activation(logits)[:, self.column].tolist()
        return scores


def _load(folder: Path, settings: RewardModelSettings, device: torch.device) -> Any:
    """The model in evaluation mode. Torch's random states, which missing weights are drawn from, stay as they were."""
    default = "bfloat16" if device.type == "cuda" else "float32"
    devices = [device] if device.type == "cuda" else []
    try:
        with torch.random.fork_rng(devices=devices):
            model, report = AutoModelForSequenceClassification.from_pretrained(
                folder,
                dtype=getattr(torch, settings.dtype or default),
                use_safetensors=True,
                trust_remote_code=False,
                local_files_only=True,
                output_loading_info=True,
            )
        model = model.to(device)
    except torch.OutOfMemoryError as error:
        raise StudyError(f"model: {settings.model}: the GPU's memory does not hold the reward model") from error
    except (ValueError, RuntimeError, KeyError, OSError) as error:
        reason = " ".join(str(error).split())[:300]
        raise StudyError(f"model: {settings.model}: cannot be loaded as a sequence classifier: {reason}") from error
    if missing := sorted(report["missing_keys"]):
        raise StudyError(
            f"model: {settings.model}: has no weights {missing[0]}, which a sequence classifier has; name a model that "
            "was trained as a reward model or a classifier"
        )
    return model.requires_grad_(False).eval()


def _check_length(model: Any, settings: RewardModelSettings) -> None:
    """Refuse a `max_length` that is more than the model's positions."""
    positions = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    for name, table in model.named_modules():  # RoBERTa numbers positions from `padding_idx` + 1
        if name.endswith("position_embeddings") and isinstance(getattr(table, "padding_idx", None), int):
            positions = min(positions or sys.maxsize, table.weight.shape[0] - table.padding_idx - 1)
    if isinstance(positions, int) and 0 < positions < settings.max_length:
        raise StudyError(
            f"max_length: {settings.max_length} is more than the {positions} positions of {settings.model}; lower it"
        )


def _check_vocabulary(model: Any, tokenizer: Any, settings: RewardModelSettings) -> None:
    """Refuse a tokenizer with tokens for which the model has no embedding: on a GPU they would end the process."""
    words, largest = model.get_input_embeddings().weight.shape[0], max(tokenizer.get_vocab().values())
    if largest >= words:
        raise StudyError(
            f"model: {settings.model}: its tokenizer has the token number {largest}, and the model has {words} "
            "embeddings; resize the model's embeddings and save the model again"
        )


def _output(config: Any, settings: RewardModelSettings) -> tuple[int, Any]:
    """Column of the logits that is scored, and the function that turns the logits into scores."""
    # With one label, the score is the logit. With several, it is the probability of the label that the parameter
    # `label` names: by softmax, or by a sigmoid if several may apply at once; of a regression, it is this label's
    # logit.
    names = {int(index): str(name) for index, name in config.id2label.items()}
    listing = ", ".join(f"{index} ({name})" for index, name in sorted(names.items())[:20])
    label = settings.label
    if len(names) == 1:
        if label is not None:
            raise StudyError(f"label: {settings.model} has one label, whose logit is the score; leave label out")
        return 0, torch.nn.Identity()
    if label is None:
        raise StudyError(f"label: missing; {settings.model} has {len(names)} labels: {listing}")
    columns = [index for index, name in names.items() if label in (index, name)]
    if len(columns) != 1:
        raise StudyError(f"label: {label!r} is no label of {settings.model}; labels: {listing}")
    by_type = {"regression": torch.nn.Identity(), "multi_label_classification": torch.nn.Sigmoid()}
    return columns[0], by_type.get(config.problem_type, torch.nn.Softmax(dim=-1))
