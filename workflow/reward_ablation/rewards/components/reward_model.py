"""Score of a sequence-classification model: a learned reward.

It imports no torch, because planning imports components too. A process that scores has `models.reward_model` give
`open_models_with` the function that loads the models.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from pydantic import PositiveInt

from reward_ablation.rewards.completions import Completion, completion_texts
from reward_ablation.rewards.parameters import ModelPath
from reward_ablation.system.errors import StudyError

#: A commit on the hub.
_COMMIT = re.compile(r"[0-9a-f]{40}")

Dtype = Literal["bfloat16", "float16", "float32"]


@dataclass(frozen=True)
class RewardModelSettings:
    """The parameters of `reward_model`, by which `models.reward_model` loads the model."""

    model: str
    revision: str | None = None
    max_length: int = 2048
    batch_size: int = 8
    dtype: Dtype | None = None
    label: str | int | None = None

    @property
    def reference(self) -> str:
        """Name by which `models.reward_model` knows the folder: `id@commit` of a hub model, else the folder's path."""
        return self.model if self.revision is None else f"{self.model}@{self.revision}"


class ModelScores(NamedTuple):
    """A score for each completion, and the number of inputs that were cut to `max_length`."""

    scores: list[float]
    cut: int


#: Scores the completions of a batch: takes a question and a completion for each score.
Scorer = Callable[[Sequence[str], Sequence[str]], ModelScores]


class _Host:
    """The function that runs reward models in this process, set from outside: `rewards` itself imports no torch."""

    open: Callable[[RewardModelSettings], Scorer] | None = None


def open_models_with(opener: Callable[[RewardModelSettings], Scorer] | None) -> None:
    """Set the function that opens the reward models of this process; None if the process runs no models.

    The function must return the same loaded model for the same settings. `models.reward_model` has such a function.
    """
    _Host.open = opener


def opened(settings: RewardModelSettings) -> Scorer:
    """The loaded model for the given settings; StudyError if this process runs no models."""
    if _Host.open is None:
        raise StudyError("this program loads no reward models; call models.reward_model.host_reward_models first")
    return _Host.open(settings)


def reward_model(
    completions: list[Completion],
    question: list[str],
    *,
    model: ModelPath,
    revision: str | None = None,
    max_length: PositiveInt = 2048,
    batch_size: PositiveInt = 8,
    dtype: Dtype | None = None,
    label: str | int | None = None,
    **columns: Any,
) -> list[float | None]:
    """The model's logit for a question and its completion; with several labels the probability of one label.

    Parameters
    ----------
    model : str
        A repository on the hub, or the path of a folder with a saved model.
    revision : str, optional
        Full hash of a commit. A hub model needs a revision. A folder has none and counts by its content.
    max_length : int
        Largest number of tokens in an input. A longer input loses its beginning, because most reward models read their
        score at the last token, and the end of the completion must stay. Where the end token is also the pad token, TRL
        and this component read the score at the token before. The metric `reward_model/cut/...`: share of cut inputs.
    batch_size : int
        Number of inputs that the model reads at once. Another number changes the last bits of a score.
    dtype : str, optional
        Number type of the weights; by default bfloat16 on CUDA, and float32 elsewhere.
    label : str or int, optional
        Name or index of the label whose probability is the score; required where the model has several labels.

    Raises
    ------
    StudyError
        The revision is not the full hash of a commit, or this process runs no models.

    Notes
    -----
    The input is the conversation of the question and the completion, in the model's own chat template. Without a
    template, the input is the question and the completion joined by a newline. A reward model trained on preferences
    gives the log-odds of the model of Bradley and Terry (1952), up to a constant for each question (Ouyang et al. 2022,
    arXiv 2203.02155, section 3.5). The score is computed as TRL computes it for a model in `reward_funcs`.
    """
    settings = RewardModelSettings(model, revision, max_length, batch_size, dtype, label)
    if revision is not None and not _COMMIT.fullmatch(revision):
        raise StudyError(
            f"revision: {revision!r} is no commit; give the full hash, 40 of the characters 0-9 and a-f: the model's "
            "page on the hub lists commits under Files, History"
        )
    if not completions:
        return []
    scored = opened(settings)(question, completion_texts(completions))
    if log_metric := columns.get("log_metric"):  # passed by the trainer
        log_metric(f"reward_model/cut/{model}", scored.cut / len(completions))
    return [*scored.scores]
